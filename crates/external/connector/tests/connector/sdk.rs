//! The connector and the SDK together.

use std::time::Duration;

use concert_external::{CreateToken, Dispatch, ErrorClass, External, NamePolicy, Operation};
use serde_json::{Value, json};

use crate::support::{Board, SESSION, Served, attempt, connector, gvk, note, open, socket, token};

#[tokio::test]
async fn a_full_session_creates_observes_updates_and_deletes() {
    let (_dir, path) = socket();
    let board = Board::default();
    let _served = Served::at(&path, board.clone()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "hello", "weight": 3 }));

    let mut session = open(&connector, &object).await;
    let seen = session.observe(&object).await.unwrap();
    assert!(!seen.exists);
    let made = session.create(&object, &token()).await.unwrap();
    assert_eq!(made.details["pin"], "red");
    let made = made.object.unwrap();
    assert_eq!(made["metadata"]["annotations"]["crossplane.io/external-name"], "note-n");
    assert_eq!(made["metadata"]["generation"], json!(3), "integers come back as integers");
    assert_eq!(made["status"]["conditions"][0]["reason"], "Creating");
    session.disconnect().await.unwrap();
    assert_eq!(*board.creates.lock().unwrap(), [CreateToken::new("u-1", 1).as_str()]);

    let mut session = open(&connector, &object).await;
    let seen = session.observe(&object).await.unwrap();
    assert!(seen.exists && seen.up_to_date && seen.diff.is_empty(), "{}", seen.diff);
    assert_eq!(seen.connection["url"].expose(), b"board://1");
    let seen = seen.object.unwrap();
    assert_eq!(seen["status"]["atProvider"], json!({ "length": 5 }));
    assert_eq!(seen["status"]["conditions"][0]["reason"], "Available");
    session.disconnect().await.unwrap();

    let changed = note(json!({ "text": "bye" }));
    let mut session = open(&connector, &changed).await;
    let seen = session.observe(&changed).await.unwrap();
    assert!(seen.exists && !seen.up_to_date);
    assert_eq!(seen.diff, r#"spec.forProvider.text: wanted "bye", found "hello""#);
    session.update(&changed).await.unwrap();
    session.disconnect().await.unwrap();
    assert_eq!(board.notes.lock().unwrap()["u-1"].text, "bye");

    let mut session = open(&connector, &changed).await;
    let gone = session.delete(&changed).await.unwrap().object.unwrap();
    assert_eq!(gone["status"]["conditions"][0]["reason"], "Deleting");
    session.disconnect().await.unwrap();
    assert!(board.notes.lock().unwrap().is_empty());
}

#[tokio::test]
async fn sixty_four_sessions_are_open_at_once_and_the_next_one_waits() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "hello" }));
    let mut open_ones = Vec::new();
    for _ in 0..64 {
        open_ones.push(open(&connector, &object).await);
    }
    let error = connector.connect(&object, attempt(Duration::from_millis(50))).await.map(drop).unwrap_err();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Unavailable, Dispatch::NotSent));
    assert!(error.message.contains("all 64 sessions with provider"), "{error}");

    let mut waiting = Box::pin(open(&connector, &object));
    assert!(futures::poll!(&mut waiting).is_pending());
    open_ones.remove(0).disconnect().await.unwrap();
    let mut next = waiting.await;
    assert!(!next.observe(&object).await.unwrap().exists);
}

#[tokio::test]
async fn errors_keep_their_class_their_words_and_their_field() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    for (fail, class, dispatch, words) in [
        ("invalid", ErrorClass::Invalid, Dispatch::Failed, "is rude"),
        ("denied", ErrorClass::Denied, Dispatch::Failed, "the board is locked"),
        ("unavailable", ErrorClass::Unavailable, Dispatch::Unknown, "the board is gone"),
        ("not-found", ErrorClass::NotFound, Dispatch::Failed, "no pin"),
        ("conflict", ErrorClass::Conflict, Dispatch::Failed, "the board is being painted"),
        ("rate", ErrorClass::RateLimited, Dispatch::Failed, "slow down"),
        ("other", ErrorClass::Other, Dispatch::Failed, "who knows"),
        ("lost", ErrorClass::Other, Dispatch::Unknown, "no answer"),
        ("panic", ErrorClass::Other, Dispatch::Unknown, "the provider panicked: the pin broke"),
    ] {
        let object = note(json!({ "text": "x", "fail": fail }));
        let mut session = open(&connector, &object).await;
        let error = session.create(&object, &token()).await.unwrap_err();
        assert_eq!((error.class, error.dispatch, &*error.message), (class, dispatch, words), "{fail}");
        assert_eq!(error.field.as_deref(), (fail == "invalid").then_some("spec.forProvider.text"));
        assert_eq!(error.retry_after, (fail == "rate").then_some(Duration::from_secs(7)));
        let after = session.observe(&object).await.unwrap_err();
        assert_eq!(after.dispatch, Dispatch::NotSent, "a session never survives an error");
        session.disconnect().await.unwrap();
        // A panic is fenced in every operation.
        let mut session = open(&connector, &object).await;
        assert_eq!(session.update(&object).await.unwrap_err().class, class);
    }
}

#[tokio::test]
async fn a_wrong_object_is_named_by_its_field() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    for (for_provider, field) in [
        (json!({ "text": 5 }), "spec.forProvider.text"),
        (json!({}), "spec.forProvider"),
        (Value::Null, "spec.forProvider"),
    ] {
        let object = note(for_provider);
        let mut session = open(&connector, &object).await;
        let error = session.observe(&object).await.unwrap_err();
        assert_eq!((error.class, error.field.as_deref()), (ErrorClass::Invalid, Some(field)), "{error}");
    }
    let mut unknown = note(json!({ "text": "x" }));
    unknown["kind"] = json!("Poster");
    let error = connector.connect(&unknown, attempt(SESSION)).await.err().unwrap();
    assert_eq!((error.operation, error.class), (Operation::Connect, ErrorClass::Unsupported));
    assert_eq!(error.message, "provider \"board\" does not know the kind board.example.org/v1, Kind=Poster");
}

/// The largest message, in either direction.
const MESSAGE: usize = 4 << 20;

#[tokio::test]
async fn what_cannot_be_sent_is_not_sent() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "x" }));

    // The object, its spec and `free` are levels already.
    let nested = |levels: usize| {
        let mut object = object.clone();
        object["spec"]["free"] = (2..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        object
    };
    let mut session = open(&connector, &object).await;
    session.observe(&nested(32)).await.expect("32 levels");
    let error = session.create(&nested(33), &token()).await.unwrap_err();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Invalid, Dispatch::NotSent));
    assert!(error.message.contains("nested deeper than 32 levels"), "{error}");
    assert!(error.field.unwrap().starts_with("spec.free.a.a"));

    // Just as large as a message may be, and one byte more: a create is a few bytes larger than its object.
    let sized = |bytes: usize| note(json!({ "text": "x".repeat(bytes) }));
    let refused = session.create(&sized(MESSAGE), &token()).await.unwrap_err();
    assert_eq!((refused.class, refused.dispatch), (ErrorClass::Invalid, Dispatch::NotSent));
    let (_, rest) = refused.message.split_once("takes ").unwrap();
    let size: usize = rest.split(' ').next().unwrap().parse().unwrap();
    let fits = MESSAGE - (size - MESSAGE);
    let error = session.create(&sized(fits + 1), &token()).await.unwrap_err();
    assert!(error.message.contains("takes 4194305 bytes on the wire, the limit is 4194304"), "{error}");
    // It is sent; the answer would be larger than that, and is not: it may have happened.
    let error = session.create(&sized(fits), &token()).await.unwrap_err();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Invalid, Dispatch::Unknown), "{error}");
    assert!(error.message.contains("the limit is: 4194304 bytes"), "{error}");
    let mut session = open(&connector, &object).await;
    session.create(&object, &token()).await.expect("the session is still good: nothing was sent");

    let nobody = crate::support::connector(&path.with_file_name("nobody.sock"));
    let error = nobody.connect(&object, attempt(SESSION)).await.err().unwrap();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Unavailable, Dispatch::NotSent));
    let at = path.with_file_name("nobody.sock");
    assert_eq!(
        error.message,
        format!("provider \"board\" at unix:{} is not reachable: no socket is there", at.display())
    );
}

#[tokio::test]
async fn a_silent_create_hits_the_deadline_and_its_outcome_is_unknown() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "x", "fail": "hang" }));
    let attempt = attempt(Duration::from_millis(300));
    let mut session = connector.connect(&object, attempt).await.unwrap().session;
    let error = session.create(&object, &token()).await.unwrap_err();
    assert_eq!((error.class, error.dispatch), (ErrorClass::Timeout, Dispatch::Unknown));
    assert!(error.message.ends_with("did not answer within 300ms"), "{error}");
    session.disconnect().await.unwrap();
}

#[tokio::test]
async fn a_repeated_create_waits_for_the_first_and_gets_its_result() {
    let (_dir, path) = socket();
    let board = Board { slow: Duration::from_millis(400), ..Board::default() };
    let _served = Served::at(&path, board.clone()).await;
    let connector = connector(&path);
    let object = note(json!({ "text": "x" }));

    let mut first = connector.connect(&object, attempt(Duration::from_millis(100))).await.unwrap().session;
    assert_eq!(first.create(&object, &token()).await.unwrap_err().dispatch, Dispatch::Unknown);
    drop(first);
    let mut second = open(&connector, &object).await;
    let made = second.create(&object, &token()).await.unwrap();
    assert_eq!(made.object.unwrap()["metadata"]["annotations"]["crossplane.io/external-name"], "note-n");
    assert_eq!(board.creates.lock().unwrap().len(), 1, "one create per token");
}

#[tokio::test]
async fn discovery_tells_names_windows_and_crds() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let discovery = connector(&path).discover().await.unwrap();
    assert_eq!(discovery.version, "v1alpha1");
    assert_eq!(discovery.features, ["create-token", "diff", "kinds"]);
    let kind = discovery.kind(&gvk()).unwrap();
    assert_eq!((kind.names, kind.consistency_window), (NamePolicy::Deterministic, Duration::from_millis(1500)));
    assert_eq!(kind.named, "board.example.org/v1, Kind=Note");
    assert_eq!(discovery.crds[0]["metadata"]["name"], "notes.board.example.org");
}

/// Two hundred sessions at once share one connection.
#[tokio::test]
async fn many_sessions_share_one_line() {
    let (_dir, path) = socket();
    let _served = Served::at(&path, Board::default()).await;
    let connector = connector(&path);
    let sessions = (0..200).map(|index| {
        let connector = &connector;
        async move {
            let mut object = note(json!({ "text": "x" }));
            object["metadata"]["uid"] = json!(format!("u-{index}"));
            let mut session = open(connector, &object).await;
            assert!(!session.observe(&object).await.unwrap().exists);
            session.disconnect().await.unwrap();
        }
    });
    futures::future::join_all(sessions).await;
}
