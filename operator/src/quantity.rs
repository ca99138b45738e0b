//! Quantities of Kubernetes as numbers: to compare, double and halve them.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use thiserror::Error;

/// A quantity in units of 10⁻⁹, the smallest that Kubernetes knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

/// A text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a quantity; write it like 500m, 2 or 4Gi")]
pub struct NoQuantity(pub String);

const NANO: i128 = 1_000_000_000;

/// Kubernetes keeps quantities in 63 bits.
const LARGEST: i128 = (i64::MAX as i128) * NANO;

impl Amount {
    /// The amount that `quantity` says. Parts below 10⁻⁹ are rounded up, as Kubernetes does.
    ///
    /// # Errors
    /// [`NoQuantity`] where it is none, or larger than 2⁶³.
    pub fn parse(quantity: &Quantity) -> Result<Self, NoQuantity> {
        Self::parse_text(&quantity.0)
    }

    /// The same for a text.
    ///
    /// # Errors
    /// [`NoQuantity`] where it is none.
    pub fn parse_text(text: &str) -> Result<Self, NoQuantity> {
        nanos(text).map(Self).ok_or_else(|| NoQuantity(text.to_owned()))
    }

    /// Whether it is below zero.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Whether it is a whole number.
    pub const fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// Twice as much.
    #[must_use]
    pub const fn doubled(self) -> Self {
        Self(self.0 * 2)
    }

    /// Half as much, in whole units.
    #[must_use]
    pub const fn half(self) -> Self {
        Self(self.0 / 2 / NANO * NANO)
    }

    /// As Kubernetes writes it: in Gi or Mi where it comes out even, else whole, or in thousandths.
    pub fn quantity(self) -> Quantity {
        const MILLI: i128 = NANO / 1000;
        const MEBI: i128 = NANO << 20;
        const GIBI: i128 = NANO << 30;
        Quantity(match self.0 {
            0 => "0".to_owned(),
            amount if amount % GIBI == 0 => format!("{}Gi", amount / GIBI),
            amount if amount % MEBI == 0 => format!("{}Mi", amount / MEBI),
            amount if amount % NANO == 0 => (amount / NANO).to_string(),
            amount => format!("{}m", (amount + MILLI - 1).div_euclid(MILLI)),
        })
    }
}

fn nanos(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || number.len() > 40 {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let (numerator, denominator) = scale(suffix)?;
    let divisor = 10_i128
        .checked_pow(u32::try_from(fraction.len()).ok()?)?
        .checked_mul(denominator)?;
    let dividend = digits.checked_mul(numerator)?;
    let rounded_up = dividend.checked_add(divisor - 1)? / divisor;
    (rounded_up <= LARGEST).then_some(if negative { -rounded_up } else { rounded_up })
}

/// The factor from a suffix to 10⁻⁹, as a fraction.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let decimal = |power: i32| -> Option<(i128, i128)> {
        let size = 10_i128.checked_pow(power.unsigned_abs())?;
        Some(if power < 0 {
            (NANO, size)
        } else {
            (NANO.checked_mul(size)?, 1)
        })
    };
    let binary = |power: u32| Some((NANO << (10 * power), 1));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E'])?;
            let power: i32 = power.parse().ok()?;
            if power.abs() > 18 { None } else { decimal(power) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        Amount::parse_text(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn one_amount_has_many_spellings() {
        for (a, b) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1Gi", "1024Mi"),
            ("1e3", "1k"),
            ("1E3", "1k"),
            ("1.5Gi", "1536Mi"),
            ("100n", "0.0000001"),
            ("+2", "2"),
            ("1e-3", "1m"),
            ("0.1n", "1n"),
        ] {
            assert_eq!(amount(a), amount(b), "{a} and {b}");
        }
        assert!(amount("2G") < amount("2Gi"));
        assert!(amount("-1").is_negative());
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "",
            "a",
            "1.2.3",
            "1 Gi",
            "1gi",
            "Gi",
            "1e",
            "1e99",
            "--1",
            "1i",
            ".",
            "99999999999999999999999999",
            "9E9E",
        ] {
            assert_eq!(
                Amount::parse_text(text),
                Err(NoQuantity(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn amounts_are_written_as_kubernetes_reads_them() {
        for (text, written) in [
            ("1Gi", "1Gi"),
            ("1536Mi", "1536Mi"),
            ("2048Mi", "2Gi"),
            ("1025Ki", "1049600"),
            ("500m", "500m"),
            ("1.5", "1500m"),
            ("100n", "1m"),
            ("0", "0"),
        ] {
            assert_eq!(amount(text).quantity().0, written);
        }
        assert_eq!(amount("500m").doubled().quantity().0, "1");
        assert_eq!(amount("4Gi").half(), amount("2Gi"));
        assert_eq!(amount("3").half(), amount("1"));
    }
}
