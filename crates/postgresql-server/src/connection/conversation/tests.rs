use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;

/// A connection without a greeting, and the server's end of it.
fn connected() -> (Connection, UnixStream) {
    let (here, there) = UnixStream::pair().unwrap();
    let mut connection = Connection::on(Arc::new(Socket::Unix(here)));
    connection.limit(None);
    (connection, there)
}

#[test]
fn command_tags_tell_the_rows_that_changed() {
    assert_eq!(changed_rows("INSERT 0 5"), 5);
    assert_eq!(changed_rows("UPDATE 12"), 12);
    assert_eq!(changed_rows("SELECT 9"), 0);
    assert_eq!(changed_rows("BEGIN"), 0);
}

#[test]
fn an_error_has_its_state_message_detail_and_hint() {
    let (mut connection, mut server) = connected();
    let fields = b"SERROR\0C23505\0Mduplicate key\0DKey (id)=(1) exists.\0HUse another.\0\0";
    server.write_all(b"E").unwrap();
    server.write_all(&(fields.len() as u32 + 4).to_be_bytes()).unwrap();
    server.write_all(fields).unwrap();
    let Answer::Refused(error) = connection.answer().unwrap() else { panic!("no refusal") };
    let expected = "duplicate key (SQLSTATE 23505); Key (id)=(1) exists.; Use another.";
    assert_eq!(error.to_string(), expected);
}

/// Whoever has something else to do at a time must not wait for a server longer than that, and gets
/// what it says later.
#[test]
fn an_answer_is_waited_for_until_a_deadline() {
    let (mut connection, mut server) = connected();
    // Half an answer, which is none yet.
    server.write_all(b"C\0\0\0").unwrap();
    for ms in [0, 0, 20] {
        let deadline = Instant::now() + Duration::from_millis(ms);
        assert!(connection.answer_until(deadline).unwrap().is_none());
        assert!(Instant::now() >= deadline);
    }
    server.write_all(b"\x0dUPDATE 3\0Z\0\0\0\x05I").unwrap();
    let far = Instant::now() + Duration::from_secs(600);
    assert!(matches!(connection.answer_until(far).unwrap(), Some(Answer::Done(3))));
    assert!(matches!(connection.answer_until(far).unwrap(), Some(Answer::Ready)));
}

/// A server that was stopped, or whose machine was cut off, was waited for without limit.
#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let (mut connection, mut server) = connected();
    connection.limit_silence(Duration::from_millis(100)).unwrap();
    // Half an answer is none.
    server.write_all(b"C\0\0\0").unwrap();
    connection.script("SELECT 1").unwrap();
    assert!(matches!(connection.answer(), Err(ConnectionError::Silent(_))));
    // One that does not even take what is sent to it.
    let (mut connection, _server) = connected();
    connection.limit_silence(Duration::from_millis(100)).unwrap();
    connection.script(&" ".repeat(8 << 20)).unwrap();
    assert!(matches!(connection.answer(), Err(ConnectionError::Silent(_))));
    // One that answers slowly, but answers.
    let (mut connection, mut server) = connected();
    connection.limit_silence(Duration::from_secs(60)).unwrap();
    let slow = std::thread::spawn(move || {
        for octet in *b"C\0\0\0\x0dUPDATE 3\0" {
            server.write_all(&[octet]).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    });
    assert!(matches!(connection.answer(), Ok(Answer::Done(3))));
    drop(slow.join().unwrap());
}

/// A request that cannot be sent must leave nothing of itself behind: half a message before the
/// next one would break the connection.
#[test]
fn a_request_with_a_nul_leaves_nothing_behind() {
    let (mut connection, _server) = connected();
    assert!(matches!(connection.script("SELECT '\0'"), Err(ConnectionError::Request(_))));
    assert!(matches!(connection.execute("a\0b", &[], Format::Text), Err(ConnectionError::Request(_))));
    assert!(connection.out.is_empty());
}

#[test]
fn a_message_that_is_too_long_is_a_broken_connection() {
    let (mut connection, mut server) = connected();
    server.write_all(b"D\x7f\xff\xff\xff").unwrap();
    assert!(matches!(connection.answer(), Err(ConnectionError::Unexpected(_))));
    let (mut connection, mut server) = connected();
    server.write_all(b"D\0\0\0\x01").unwrap();
    assert!(connection.answer().is_err());
}

mod any_octets {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever octets come, reading them ends and stays within them.
        #[test]
        fn no_message_makes_the_reader_panic(
            kind in prop::sample::select(b"DCEZtTRKSN1".to_vec()),
            body in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let (mut connection, mut server) = connected();
            server.write_all(&[kind]).unwrap();
            server.write_all(&(body.len() as u32 + 4).to_be_bytes()).unwrap();
            server.write_all(&body).unwrap();
            drop(server);
            while let Ok(answer) = connection.answer() {
                if let Answer::Row(row) = answer {
                    let octets: usize = row.columns().flatten().map(<[u8]>::len).sum();
                    prop_assert!(octets <= body.len() * row.columns().count().max(1));
                    let _ = row.places();
                }
            }
        }
    }
}
