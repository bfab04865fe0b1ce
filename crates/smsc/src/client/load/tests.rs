use super::*;
use crate::smpp::bind_response;
use tokio::net::{TcpListener, TcpStream};

/// A session of 60,000 a second sent numbers that SMPP does not have after ten hours, and none
/// after twenty: a number of four octets has an end.
#[test]
fn numbers_of_messages_stay_within_smpp() {
    assert_eq!((after(1), after(0x7fff_fffe), after(0x7fff_ffff)), (2, 0x7fff_ffff, 1));
}

/// A centre that answers nothing but the bind: room in the window was waited for without end.
#[tokio::test]
async fn a_centre_that_does_not_answer_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut input, mut is_bound) = ([0; 4096], false);
        while stream.read(&mut input).await.is_ok_and(|read| read > 0) {
            if !std::mem::replace(&mut is_bound, true) {
                let mut out = Vec::new();
                bind_response(&mut out, Command::BindTransceiver, Status::Ok, 1, ("centre", true));
                stream.write_all(&out).await.unwrap();
            }
        }
    });
    // The bind has this patience, too.
    let load = Load { window: 3, limit: Duration::ZERO, ..load_of(address) };
    let step = run(&load, 200.0, Duration::from_millis(500)).await.unwrap();
    assert_eq!((step.accepted, step.refused, step.unanswered), (0, 0, step.offered), "{step:?}");
    assert!((50..200).contains(&step.offered), "{step:?}");
}

/// A session with a centre that accepts all, and has no receipt for it. The account may have one
/// session at a time, and the centre comes to the end of one late.
async fn serve(mut stream: TcpStream, bound: Arc<AtomicU64>) {
    let (mut input, mut out, mut ends) = (Vec::<u8>::new(), Vec::new(), false);
    while !ends && stream.read_buf(&mut input).await.is_ok_and(|read| read > 0) {
        while let Framing::Pdu(header) = frame(&input) {
            input.drain(..header.length as usize);
            match Command::of(header.command) {
                Some(Command::BindTransceiver) => {
                    let is_first = bound.fetch_add(1, Relaxed) == 0;
                    let status = if is_first { Status::Ok } else { Status::BindFailed };
                    bind_response(&mut out, Command::BindTransceiver, status, 1, ("centre", true));
                }
                Some(Command::SubmitSm) => {
                    let response = Command::SubmitSm.response() as u32;
                    pdu(&mut out, response, Status::Ok, header.sequence, |out| {
                        out.extend_from_slice(b"1\0");
                    });
                }
                Some(Command::Unbind) => {
                    let response = Command::Unbind.response() as u32;
                    pdu(&mut out, response, Status::Ok, header.sequence, |_| ());
                    ends = true;
                }
                _ => {}
            }
        }
        ends |= stream.write_all(&out).await.is_err();
        out.clear();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    bound.fetch_sub(1, Relaxed);
}

/// That centre, and what is to be submitted to it.
async fn accepting() -> Load {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let bound = Arc::new(AtomicU64::new(0));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, Arc::clone(&bound)));
        }
    });
    load_of(address)
}

/// What is to be submitted to the centre there.
fn load_of(address: String) -> Load {
    Load {
        address,
        system_id: "app".into(),
        password: "secret".into(),
        sessions: 1,
        window: 100,
        seed: 1,
        prefix: "49170".into(),
        destinations: 9,
        body: 1,
        receipts: false,
        patience: Duration::from_secs(3),
        limit: Duration::from_millis(100),
    }
}

/// A step ended when it had said goodbye: the next one of a ramp was refused its sessions where
/// the account may not have twice as many.
#[tokio::test]
async fn a_step_ends_when_its_sessions_have() {
    let load = accepting().await;
    for _ in 0..2 {
        let step = run(&load, 100.0, Duration::from_millis(500)).await.unwrap();
        assert_eq!(step.accepted, step.offered, "{step:?}");
    }
}

/// Of a step that waited 20 s for the receipt of a mobile that was away, accepted/s was a fifth
/// of what was accepted in a second.
#[tokio::test]
async fn waiting_for_receipts_is_no_time_in_which_messages_are_accepted() {
    // Receipts are waited for as long as its patience at most.
    let load = Load { receipts: true, ..accepting().await };
    let step = run(&load, 100.0, Duration::from_secs(1)).await.unwrap();
    assert_eq!((step.accepted, step.receipts), (step.offered, 0), "{step:?}");
    assert!(step.accepted > 50 && step.receipts_due == step.accepted, "{step:?}");
    assert!(!step.keeps_up(60_000.0) && step.seconds > 3.0, "{step:?}");
    // Had nothing held the answers up it would be exactly this.
    assert!(step.accepted_per_s > step.accepted as f64 / step.seconds, "{step:?}");
    assert!(step.accepted_per_s <= step.accepted as f64, "{step:?}");
}

/// What happened: of a centre that was killed after half of a step nothing was told but that the
/// connection broke: what it had accepted until then was lost.
#[tokio::test]
async fn what_was_done_until_the_centre_went_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut input, mut out, mut taken) = (Vec::<u8>::new(), Vec::new(), 0);
        while taken < 20 && stream.read_buf(&mut input).await.is_ok_and(|read| read > 0) {
            while let Framing::Pdu(header) = frame(&input) {
                input.drain(..header.length as usize);
                if Command::of(header.command) == Some(Command::BindTransceiver) {
                    bind_response(&mut out, Command::BindTransceiver, Status::Ok, 1, ("centre", true));
                } else {
                    taken += 1;
                    let response = Command::SubmitSm.response() as u32;
                    pdu(&mut out, response, Status::Ok, header.sequence, |out| {
                        out.extend_from_slice(b"1\0");
                    });
                }
            }
            stream.write_all(&out).await.unwrap();
            out.clear();
        }
    });
    let step = run(&load_of(address), 200.0, Duration::from_secs(2)).await.unwrap();
    assert!(step.broke.is_some() && step.accepted > 0 && step.unanswered > 0, "{step:?}");
    assert_eq!(step.accepted + step.unanswered, step.offered, "{step:?}");
    assert!(!step.keeps_up(60_000.0), "{step:?}");
}
