//! Logs: to standard error, with `RUST_LOG` to choose.

use tracing_subscriber::EnvFilter;

/// Installs the subscriber. `default` is what is logged if `RUST_LOG` does not say.
pub(crate) fn install(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    // A second installation (in tests) changes nothing.
    let _ =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(terminal).try_init();
}
