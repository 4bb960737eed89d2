//! A network between a server and its clients that cuts and stalls connections, at any byte.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use concert_e2e::ControlPlane;

/// What becomes of connections.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weather {
    Fine,
    /// So many bytes still come from the server, over all connections; then all are cut, once.
    CutAfter(usize),
    /// Nobody gets through.
    Closed,
}

#[derive(Debug)]
struct State {
    weather: Weather,
    /// Connections with a lower number say nothing more, and do not end.
    stalled_below: usize,
    connections: Vec<(TcpStream, TcpStream)>,
    cuts: usize,
}

/// Listens on loopback and passes on what it hears. Its threads end with their connections, the listener with the process.
pub(crate) struct Network {
    state: Arc<(Mutex<State>, Condvar)>,
    kubeconfig: PathBuf,
}

impl Network {
    /// A network in front of a server, and a kubeconfig that leads through it.
    pub(crate) fn before(server: &ControlPlane) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = std::fs::read_to_string(server.kubeconfig()).unwrap();
        let (before, after) = text.split_once("https://").unwrap();
        let end = after.find(['\n', '"', ',']).unwrap_or(after.len());
        let upstream: SocketAddr = after[..end].trim().trim_end_matches('/').parse().unwrap();
        let kubeconfig = server.directory().join("network.kubeconfig");
        std::fs::write(&kubeconfig, format!("{before}https://{}{}", listener.local_addr().unwrap(), &after[end..]))
            .unwrap();
        let state = State { weather: Weather::Fine, stalled_below: 0, connections: Vec::new(), cuts: 0 };
        let state = Arc::new((Mutex::new(state), Condvar::new()));
        let accepts = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                accept(&accepts, client.unwrap(), upstream);
            }
        });
        Self { state, kubeconfig }
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
    }

    /// Cuts every connection after so many more bytes.
    pub(crate) fn cut_after(&self, bytes: usize) {
        self.change(|state| state.weather = Weather::CutAfter(bytes));
    }

    /// Cuts every connection now, and lets none through.
    pub(crate) fn close(&self) {
        self.change(|state| {
            state.weather = Weather::Closed;
            state.cut();
        });
    }

    /// Lets everything through again, but for what was stalled.
    pub(crate) fn open(&self) {
        self.change(|state| state.weather = Weather::Fine);
    }

    /// Lets nothing more through on the connections there are, without a word. New ones are fine.
    pub(crate) fn stall(&self) {
        self.change(|state| state.stalled_below = state.connections.len());
    }

    /// How often all connections were cut.
    pub(crate) fn cuts(&self) -> usize {
        self.state.0.lock().unwrap().cuts
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.change(|state| {
            state.stalled_below = 0;
            state.weather = Weather::Closed;
            state.cut();
        });
    }
}

impl State {
    fn cut(&mut self) {
        self.cuts += 1;
        for (client, server) in &self.connections {
            // One that has ended already cannot be cut.
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
    }
}

fn accept(state: &Arc<(Mutex<State>, Condvar)>, client: TcpStream, upstream: SocketAddr) {
    let mut now = state.0.lock().unwrap();
    // Dropping it is a cut, too.
    let Some(server) = (now.weather != Weather::Closed).then(|| TcpStream::connect(upstream).ok()).flatten() else {
        return;
    };
    let number = now.connections.len();
    now.connections.push((client.try_clone().unwrap(), server.try_clone().unwrap()));
    drop(now);
    for stream in [&client, &server] {
        stream.set_nodelay(true).unwrap();
    }
    let (up, down) = ((client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client));
    for ((from, to), counts) in [(up, false), (down, true)] {
        let state = Arc::clone(state);
        std::thread::spawn(move || pass(&state, number, from, to, counts));
    }
}

/// Passes on what comes from one side, as the weather is.
fn pass(state: &(Mutex<State>, Condvar), number: usize, mut from: TcpStream, mut to: TcpStream, counts: bool) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let now = state.0.lock().unwrap();
        let mut now = state.1.wait_while(now, |now| number < now.stalled_below).unwrap();
        let allowed = match now.weather {
            Weather::CutAfter(left) if counts => left.min(read),
            _ => read,
        };
        let sent = to.write_all(&buffer[..allowed]);
        if let Weather::CutAfter(left) = now.weather
            && counts
        {
            now.weather = if allowed < read { Weather::Fine } else { Weather::CutAfter(left - allowed) };
        }
        if allowed < read {
            now.cut();
        }
        if sent.is_err() || allowed < read {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
