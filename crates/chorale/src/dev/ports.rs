//! Which ports the nodes of a local cluster have: counted, so that one can remember them.
//!
//! | | node 1 | node 2 | .. |
//! | --- | --- | --- | --- |
//! | clients | `--port` | `--port` + 1 | |
//! | cluster endpoint | + 1000 | + 1001 | |
//! | other nodes | + 2000 | + 2001 | |
//! | operators | + 3000 | + 3001 | |

use std::net::{Ipv4Addr, TcpListener};

/// From the ports of one kind to those of the next; above [`NODES_MAX`](super::NODES_MAX), so that they never meet.
const STRIDE: u16 = 1000;

/// Where one node listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) client: u16,
    pub(super) cluster: u16,
    pub(super) peer: u16,
    pub(super) admin: u16,
}

impl Ports {
    /// Those of the node with this number, from 1, or `None` where there are no such ports.
    pub(super) fn of(first: u16, number: u16) -> Option<Ports> {
        let client = first.checked_add(number - 1)?;
        Some(Ports {
            client,
            cluster: client.checked_add(STRIDE)?,
            peer: client.checked_add(2 * STRIDE)?,
            admin: client.checked_add(3 * STRIDE)?,
        })
    }

    /// The first one that somebody else listens on, and what it was to be for.
    fn taken(self) -> Option<(u16, &'static str)> {
        [
            (self.client, "clients"),
            (self.cluster, "the cluster endpoint"),
            (self.peer, "other nodes"),
            (self.admin, "operators"),
        ]
        .into_iter()
        .find(|&(port, _)| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err())
    }
}

/// The ports of nodes with these numbers, all of them free, or what to do.
pub(super) fn choose(first: u16, numbers: std::ops::RangeInclusive<u16>) -> Result<Vec<Ports>, String> {
    let count = numbers.end();
    let Some(ports) = numbers
        .clone()
        .map(|number| Ports::of(first, number))
        .collect::<Option<Vec<_>>>()
    else {
        return Err(format!(
            "there are no ports for {count} nodes from {first} on: they have {first} and the numbers after it, and the \
             same plus {STRIDE}, {} and {}. Choose a smaller --port",
            2 * STRIDE,
            3 * STRIDE
        ));
    };
    for (number, ports) in numbers.clone().zip(&ports) {
        if let Some((port, what)) = ports.taken() {
            let mut problem =
                format!("port {port}, which node {number} needs for {what}, cannot be had: it is taken");
            if *numbers.start() == 1 {
                let advice = match free_first(*count) {
                    Some(first) => format!(". Choose others: --port {first} is free"),
                    None => ". Choose others with --port".to_owned(),
                };
                problem.push_str(&advice);
            }
            return Err(problem);
        }
    }
    Ok(ports)
}

/// A first port from which on this many nodes find all theirs free.
fn free_first(count: u16) -> Option<u16> {
    (16379..=28379).step_by(100).find(|&first| {
        (1..=count).all(|number| Ports::of(first, number).is_some_and(|ports| ports.taken().is_none()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_counted_and_no_two_are_the_same() {
        let second = Ports::of(6379, 2).unwrap();
        assert_eq!(
            (second.client, second.cluster, second.peer, second.admin),
            (6380, 7380, 8380, 9380)
        );
        let mut all: Vec<u16> = (1..=super::super::NODES_MAX)
            .filter_map(|number| Ports::of(6379, number))
            .flat_map(|ports| [ports.client, ports.cluster, ports.peer, ports.admin])
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 4 * usize::from(super::super::NODES_MAX));
    }

    #[test]
    fn a_port_that_is_taken_is_named_with_a_way_out() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let problem = choose(port - 1000, 1..=1).unwrap_err();
        assert!(
            problem.contains(&format!("port {port}, which node 1 needs for")),
            "{problem}"
        );
        assert!(problem.contains("--port"), "{problem}");
        assert!(choose(65000, 1..=3).unwrap_err().contains("smaller --port"));
    }
}
