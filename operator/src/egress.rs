//! Where environments may connect to.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use thiserror::Error;

/// A block of addresses, `address/length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    length: u8,
}

/// A destination that is allowed beyond the public internet: `CIDR:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Its addresses.
    pub cidr: Cidr,
    /// Its TCP port.
    pub port: u16,
}

/// A text is no destination.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a destination; write CIDR:port, for example 10.1.2.3/32:8080 or [2001:db8::/32]:443")]
pub struct NoDestination(String);

impl Cidr {
    /// The block of one address alone.
    pub const fn single(address: IpAddr) -> Self {
        let length = if address.is_ipv4() { 32 } else { 128 };
        Self { address, length }
    }

    /// Whether it is a block of IPv4 addresses.
    pub const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether `address` is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(block), IpAddr::V4(address)) => {
                same_prefix(block.to_bits().into(), address.to_bits().into(), 32, self.length)
            }
            (IpAddr::V6(block), IpAddr::V6(address)) => {
                same_prefix(block.to_bits(), address.to_bits(), 128, self.length)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

const fn same_prefix(a: u128, b: u128, width: u8, length: u8) -> bool {
    let ignored = (width - length) as u32;
    // A shift by the whole width would overflow: a block of length 0 has everything.
    ignored == 128 || (a ^ b) >> ignored == 0
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Cidr {
    type Err = NoDestination;

    /// Bits beyond the prefix are refused: the API server refuses them too, but later and with less to go by.
    fn from_str(text: &str) -> Result<Self, NoDestination> {
        let refused = || NoDestination(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(refused)?;
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let length: u8 = length.parse().map_err(|_| refused())?;
        let (bits, width) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), 32),
            IpAddr::V6(address) => (address.to_bits(), 128),
        };
        let host_bits = bits
            .checked_shl(u32::from(128 - width + length.min(width)))
            .unwrap_or(0);
        if length > width || host_bits != 0 {
            Err(refused())
        } else {
            Ok(Self { address, length })
        }
    }
}

impl FromStr for Destination {
    type Err = NoDestination;

    fn from_str(text: &str) -> Result<Self, NoDestination> {
        let refused = || NoDestination(text.to_owned());
        let (cidr, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let cidr = cidr
            .strip_prefix('[')
            .and_then(|cidr| cidr.strip_suffix(']'))
            .unwrap_or(cidr);
        let port: u16 = port.parse().map_err(|_| refused())?;
        if port == 0 {
            return Err(refused());
        }
        Ok(Self {
            cidr: cidr.parse().map_err(|_| refused())?,
            port,
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]:{}", self.cidr, self.port)
    }
}

/// The public internet as blocks of a NetworkPolicy: a block, and what is taken out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The block.
    pub cidr: String,
    /// What is not part of it.
    pub except: Vec<String>,
}

/// Everything but the public internet in IPv4: this network, private, carrier-grade, loopback, link-local (clouds' metadata
/// among it), protocol assignments and documentation, benchmarks, multicast, reserved; and the one public metadata address, Azure's.
const NOT_PUBLIC_V4: &[&str] = &[
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];

/// Global unicast: unique-local, link-local, multicast and NAT64, which leads back to private IPv4, lie outside.
const PUBLIC_V6: &str = "2000::/3";

/// Tunnels to IPv4 (Teredo and 6to4), and documentation.
const NOT_PUBLIC_V6: &[&str] = &["2001::/32", "2001:db8::/32", "2002::/16"];

/// The public internet without `excluded`, which are addresses of the API server.
pub fn public_internet(excluded: &[IpAddr]) -> Vec<Block> {
    let block = |cidr: &str, not_public: &[&str]| {
        let whole: Cidr = cidr.parse().expect("a block");
        let known: Vec<Cidr> = not_public
            .iter()
            .map(|cidr| cidr.parse().expect("a block"))
            .collect();
        let further = excluded
            .iter()
            .filter(|address| {
                whole.contains(**address) && !known.iter().any(|block| block.contains(**address))
            })
            .map(|address| Cidr::single(*address));
        let except = known
            .iter()
            .cloned()
            .chain(further)
            .map(|cidr| cidr.to_string())
            .collect();
        Block {
            cidr: cidr.to_owned(),
            except,
        }
    };
    vec![block("0.0.0.0/0", NOT_PUBLIC_V4), block(PUBLIC_V6, NOT_PUBLIC_V6)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_public(address: &str, excluded: &[&str]) -> bool {
        let excluded: Vec<IpAddr> = excluded
            .iter()
            .map(|text| text.parse().expect("an address"))
            .collect();
        let address: IpAddr = address.parse().expect("an address");
        let within = |cidr: &str| cidr.parse::<Cidr>().expect("a block").contains(address);
        public_internet(&excluded)
            .iter()
            .any(|block| within(&block.cidr) && !block.except.iter().any(|cidr| within(cidr)))
    }

    #[test]
    fn private_link_local_carrier_grade_and_metadata_addresses_are_not_public() {
        for address in [
            "10.96.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "168.63.129.16",
            "192.0.0.192",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "fd00:ec2::254",
            "fe80::1",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "ff02::1",
        ] {
            assert!(!is_public(address, &[]), "{address}");
        }
    }

    #[test]
    fn the_rest_is_public_but_for_the_api_server() {
        for address in [
            "151.101.0.223",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "2a04:4e42::223",
        ] {
            assert!(is_public(address, &[]), "{address}");
            assert!(!is_public(address, &[address]), "{address}");
        }
    }

    #[test]
    fn an_exception_lies_within_its_block_and_stands_once() {
        let api_server = ["10.0.0.1", "34.1.2.3", "2600::1"].map(|text| text.parse().expect("an address"));
        for block in public_internet(&api_server) {
            let whole: Cidr = block.cidr.parse().expect("a block");
            for except in &block.except {
                let except: Cidr = except.parse().expect("a block");
                assert!(whole.contains(except.address), "{except} is not in {whole}");
            }
            assert!(!block.except.contains(&"10.0.0.1/32".to_owned()));
        }
    }

    #[test]
    fn destinations_are_a_block_and_a_port() {
        for (text, shown) in [
            ("10.1.2.3/32:8080", "[10.1.2.3/32]:8080"),
            ("10.0.0.0/8:1", "[10.0.0.0/8]:1"),
            ("0.0.0.0/0:443", "[0.0.0.0/0]:443"),
            ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
            ("2001:db8::/32:443", "[2001:db8::/32]:443"),
        ] {
            let destination: Destination = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(destination.to_string(), shown);
        }
        for text in [
            "",
            "10.1.2.3:80",
            "10.1.2.3/33:80",
            "10.1.2.3/32",
            "10.1.2.3/24:80",
            "x/8:80",
            "10.0.0.0/8:0",
        ] {
            assert_eq!(
                text.parse::<Destination>(),
                Err(NoDestination(text.to_owned())),
                "{text}"
            );
        }
    }
}
