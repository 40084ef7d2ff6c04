//! What pipelining clients rely on: replies in the order of requests, and each key's commands in that order.

use blackbox::{Client, Server, Value, frame};

/// A key for each of several groups, however the groups divide the slots.
const KEYS: &[&str] = &["k", "another", "third:3", "{tag}x"];

fn story(key: &str) -> Vec<u8> {
    [
        frame(&["SET", key, "1"]),
        frame(&["GET", key]),
        frame(&["SET", key, "2"]),
    ]
    .concat()
}

#[track_caller]
fn expect_story(client: &mut Client, shape: &str) {
    let replies: Vec<Value> = (0..3)
        .map(|_| {
            client
                .receive()
                .unwrap_or_else(|error| panic!("{shape}: {error}"))
        })
        .collect();
    assert_eq!(replies, [Value::ok(), Value::bulk("1"), Value::ok()], "{shape}");
}

#[test]
fn a_read_between_two_writes_sees_the_first_in_every_split_of_the_bytes() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    // Its round trips give the server time to see a fragment alone, without a sleep.
    let mut metronome = server.client();
    for (index, key) in KEYS.iter().enumerate() {
        let bytes = story(key);
        for first in 1..=bytes.len() {
            for second in first..=bytes.len() {
                // All keys go through all cuts, but pauses, and cuts in three, are dealt out between them.
                if second < bytes.len() && !(first + second).is_multiple_of(KEYS.len()) {
                    continue;
                }
                let pause = (first * 31 + second + index).is_multiple_of(5);
                for fragment in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    if !fragment.is_empty() {
                        client.send_raw(fragment).expect("the server reads");
                        if pause {
                            metronome.run("PING");
                        }
                    }
                }
                expect_story(&mut client, &format!("{key} cut at {first} and {second}"));
            }
        }
    }
}

#[test]
fn bytes_that_arrive_one_by_one_make_the_same_commands() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for key in KEYS {
        for byte in story(key) {
            client.send_raw(&[byte]).expect("the server reads");
        }
        expect_story(&mut client, key);
    }
}

#[test]
fn stories_of_several_keys_interleave_without_mixing() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for round in 0..50 {
        let mut commands = Vec::new();
        for step in 0..3 {
            for key in KEYS {
                commands.push(match step {
                    0 => vec!["SET".to_owned(), (*key).to_owned(), format!("{key}{round}")],
                    1 => vec!["GET".to_owned(), (*key).to_owned()],
                    _ => vec!["SET".to_owned(), (*key).to_owned(), "2".to_owned()],
                });
            }
        }
        let replies = client.pipeline(&commands);
        for (index, key) in KEYS.iter().enumerate() {
            assert_eq!(replies[index], Value::ok());
            assert_eq!(replies[KEYS.len() + index], Value::bulk(format!("{key}{round}")));
            assert_eq!(replies[2 * KEYS.len() + index], Value::ok());
        }
    }
}

#[test]
fn replies_keep_the_order_of_requests_over_all_groups_and_workers() {
    const COUNT: usize = 20_000;
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    // ECHO needs no group at all, GET needs one, and whichever is quicker must wait for the other.
    let commands: Vec<Vec<String>> = (0..COUNT)
        .map(|index| match index % 3 {
            0 => vec!["SET".to_owned(), format!("key:{index}"), index.to_string()],
            1 => vec!["GET".to_owned(), format!("key:{}", index - 1)],
            _ => vec!["ECHO".to_owned(), index.to_string()],
        })
        .collect();
    for (index, reply) in client.pipeline(&commands).into_iter().enumerate() {
        let expected = match index % 3 {
            0 => Value::ok(),
            1 => Value::bulk((index - 1).to_string()),
            _ => Value::bulk(index.to_string()),
        };
        assert_eq!(reply, expected, "reply {index}");
    }
}

#[test]
fn commands_over_many_groups_keep_their_place_in_a_pipeline() {
    const ROUNDS: usize = 1_000;
    const WIDTH: usize = 6;
    let server = Server::subject().workers(2).groups(64).start();
    let mut client = server.client();
    let keys: Vec<String> = (0..WIDTH).map(|index| format!("wide:{index}")).collect();
    let mut commands = Vec::new();
    for round in 0..ROUNDS {
        let mut write = vec!["MSET".to_owned()];
        for key in &keys {
            write.extend([key.clone(), round.to_string()]);
        }
        commands.push(write);
        commands.push(vec!["GET".to_owned(), keys[round % WIDTH].clone()]);
        commands.push([vec!["MGET".to_owned()], keys.clone()].concat());
        commands.push(vec!["INCR".to_owned(), keys[(round + 1) % WIDTH].clone()]);
        commands.push(vec!["GET".to_owned(), keys[(round + 1) % WIDTH].clone()]);
    }
    let replies = client.pipeline(&commands);
    for (round, replies) in replies.chunks_exact(5).enumerate() {
        let now = Value::bulk(round.to_string());
        assert_eq!(replies[0], Value::ok(), "round {round}");
        assert_eq!(replies[1], now, "round {round}");
        assert_eq!(replies[2], Value::Array(vec![now; WIDTH]), "round {round}");
        assert_eq!(replies[3], Value::Integer(round as i64 + 1), "round {round}");
        assert_eq!(replies[4], Value::bulk((round + 1).to_string()), "round {round}");
    }
}

#[test]
fn transactions_and_errors_keep_their_place_in_a_pipeline() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    for round in 0..200 {
        let key = format!("k{round}");
        let commands: Vec<Vec<&str>> = [
            "GET",
            "MULTI",
            "SET {k} 1",
            "INCR {k}",
            "GET other",
            "EXEC",
            "nosuch",
            "GET {k}",
            "MULTI",
            "GET",
            "EXEC",
            "GET {k}",
        ]
        .iter()
        .map(|line| {
            line.split(' ')
                .map(|word| if word == "{k}" { key.as_str() } else { word })
                .collect()
        })
        .collect();
        let replies = client.pipeline(&commands);
        let queued = Value::Simple(b"QUEUED".to_vec());
        assert!(
            replies[0]
                .error()
                .is_some_and(|text| text.contains("wrong number of arguments"))
        );
        assert_eq!(
            replies[1..5],
            [Value::ok(), queued.clone(), queued.clone(), queued]
        );
        assert_eq!(
            replies[5],
            Value::Array(vec![Value::ok(), Value::Integer(2), Value::NullBulk])
        );
        assert!(
            replies[6]
                .error()
                .is_some_and(|text| text.starts_with("ERR unknown command"))
        );
        assert_eq!(replies[7], Value::bulk("2"));
        assert_eq!(replies[8], Value::ok());
        assert!(replies[9].error().is_some());
        assert!(
            replies[10]
                .error()
                .is_some_and(|text| text.starts_with("EXECABORT"))
        );
        assert_eq!(replies[11], Value::bulk("2"));
    }
}

#[test]
fn a_large_value_in_a_pipeline_delays_but_does_not_reorder() {
    let server = Server::subject().workers(2).start();
    let mut client = server.client();
    let large = "x".repeat(3_000_000);
    let commands = vec![
        vec!["SET", "small", "s"],
        vec!["SET", "large", &large],
        vec!["GET", "large"],
        vec!["GET", "small"],
        vec!["STRLEN", "large"],
        vec!["GET", "large"],
        vec!["PING"],
    ];
    let expected = [
        Value::ok(),
        Value::ok(),
        Value::bulk(&large),
        Value::bulk("s"),
        Value::Integer(3_000_000),
        Value::bulk(&large),
        Value::Simple(b"PONG".to_vec()),
    ];
    assert!(client.pipeline(&commands) == expected, "replies out of order");
}
