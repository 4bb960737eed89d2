//! A provider that comes and goes.

use std::time::Duration;

use concert_connector::{Connector, State};
use concert_external::{Dispatch, ErrorClass};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::support::{Board, Served, connector, note, open, socket, token};

/// News of a provider is there within a second or so; a loaded machine gets more.
const SOON: Duration = Duration::from_secs(5);

async fn wait(state: &mut watch::Receiver<State>, wanted: fn(&State) -> bool) -> State {
    tokio::time::timeout(SOON, state.wait_for(wanted)).await.expect("the state changes soon").unwrap().clone()
}

fn is_connected(state: &State) -> bool {
    matches!(state, State::Connected { .. })
}

fn is_unreachable(state: &State) -> bool {
    matches!(state, State::Disconnected { reason } if reason.contains("is not reachable"))
}

#[tokio::test]
async fn a_provider_is_waited_for_missed_and_found_again() {
    let (_dir, path) = socket();
    let connector = connector(&path);
    let cancel = CancellationToken::new();
    let run = tokio::spawn(connector.clone().run(cancel.clone()));
    let mut state = connector.state();
    wait(&mut state, is_unreachable).await;

    let served = Served::at(&path, Board::default()).await;
    let State::Connected { generation: first, .. } = wait(&mut state, is_connected).await else { unreachable!() };
    served.stop().await;
    wait(&mut state, is_unreachable).await;

    let _served = Served::at(&path, Board::default()).await;
    let State::Connected { generation: second, discovery } = wait(&mut state, is_connected).await else {
        unreachable!()
    };
    assert!(second > first);
    assert_eq!(discovery.kinds.len(), 1);
    let object = note(json!({ "text": "x" }));
    let mut session = open(&connector, &object).await;
    session.create(&object, &token()).await.unwrap();
    session.disconnect().await.unwrap();
    cancel.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn a_stopping_provider_lets_a_create_end() {
    let (_dir, path) = socket();
    let board = Board { slow: Duration::from_millis(300), ..Board::default() };
    let served = Served::at(&path, board.clone()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "x" }));
    let mut session = open(&connector, &object).await;
    let token = token();
    let (made, ()) = tokio::join!(session.create(&object, &token), async {
        while board.creates.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        served.stop.cancel();
    });
    made.expect("what has begun is finished");
    session.disconnect().await.unwrap();
    tokio::time::timeout(SOON, served.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let endpoint = concert_connector::Endpoint::parse(&address, false).unwrap();
    let connector = Connector::new("far", endpoint, concert_world::World::real()).unwrap();
    let error = connector.discover().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert_eq!(error.message, format!("provider \"far\" at {address} is not reachable: connection refused"));
    let object = note(json!({ "text": "x" }));
    let attempt = crate::support::attempt(SOON);
    let refused = concert_external::External::connect(&connector, &object, attempt).await.err().unwrap();
    assert_eq!(refused.dispatch, Dispatch::NotSent);
}

#[tokio::test]
async fn a_peer_that_does_not_speak_tls_is_refused() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let plain = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let endpoint = concert_connector::Endpoint::parse(&address, true).unwrap();
    let connector = Connector::new("far", endpoint, concert_world::World::real()).unwrap();
    let error = connector.discover().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
    assert!(
        error.message.starts_with(&format!("provider \"far\" at {address} is not reachable: the TLS handshake failed")),
        "{error}"
    );
    plain.await.unwrap();
}
