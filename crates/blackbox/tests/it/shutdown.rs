//! How a server ends when it is asked to.

use blackbox::{Server, frame};

fn ends_at(signal: &str) {
    let mut server = Server::subject().workers(2).start();
    let mut idle = server.client();
    let mut inside_frame = server.client();
    let mut inside_block = server.client();
    let mut busy: Vec<_> = (0..8).map(|_| server.client()).collect();
    idle.run("PING");
    let whole = frame(&["SET", "key", "value"]);
    inside_frame
        .send_raw(&whole[..whole.len() - 4])
        .expect("the server reads");
    inside_block.run_ok("WATCH key");
    inside_block.run_ok("MULTI");
    for (index, client) in busy.iter_mut().enumerate() {
        client.run_ok(&format!("SET busy:{index} 1"));
        client
            .send_raw(&frame(&["GET", "busy:0"]).repeat(100))
            .expect("the server reads");
    }

    server.signal(signal);
    let status = server.wait();

    assert_eq!(
        status.code(),
        Some(0),
        "SIG{signal}: {status}; log:\n{}",
        server.log()
    );
    for client in [&mut idle, &mut inside_frame, &mut inside_block]
        .into_iter()
        .chain(&mut busy)
    {
        client.drain().expect("an ended process holds no connection");
    }
}

#[test]
fn sigterm_ends_the_process_with_success_while_clients_are_connected() {
    ends_at("TERM");
}

#[test]
fn sigint_ends_the_process_with_success_while_clients_are_connected() {
    ends_at("INT");
}

#[test]
fn a_panic_of_any_worker_ends_the_node() {
    for at in 0..3 {
        let mut server = Server::subject()
            .workers(3)
            .flag("enable-debug-command", "yes")
            .start();
        // Connections go to the workers in turn.
        let mut clients: Vec<_> = (0..3).map(|_| server.client()).collect();
        for client in &mut clients {
            client.run("PING");
        }
        clients[at]
            .send_raw(&frame(&["DEBUG", "PANIC"]))
            .expect("the server reads");
        let status = server.wait();
        assert!(!status.success(), "{status}");
        for client in &mut clients {
            client.drain().expect("an ended process holds no connection");
        }
    }
}

#[test]
fn the_port_is_free_again_after_the_end() {
    let mut server = Server::subject().start();
    let address = server.address();
    server.client().run("PING");
    server.signal("TERM");
    server.wait();
    assert!(
        blackbox::Client::connect(address).is_err(),
        "somebody still listens on {address}"
    );
}
