//! Prints what is generated from the API types: `rexec-crdgen crd` the definitions as YAML, `rexec-crdgen conditions` the
//! documentation page of conditions and reasons.

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let text = match std::env::args().nth(1).as_deref() {
        Some("crd") | None => rexec_crds::schema::yaml(),
        Some("conditions") => rexec_crds::conditions::reference(),
        Some(other) => {
            let _ = writeln!(
                std::io::stderr(),
                "rexec-crdgen: there is no `{other}`; say `crd` or `conditions`"
            );
            return ExitCode::FAILURE;
        }
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
