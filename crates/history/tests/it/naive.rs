//! The slow and plain way: every order of a few operations, over the simplest possible objects.

use history::{Answer, Call, History, Operation};

/// An object of any family.
#[derive(Clone, Default)]
pub(crate) struct Plain {
    value: Option<i64>,
    elements: Vec<i64>,
}

impl Plain {
    /// Does it, and says what a client is told.
    pub(crate) fn apply(&mut self, call: Call) -> Answer {
        match call {
            Call::Get => Answer::Value(self.value),
            Call::Set(value) => {
                self.value = Some(value);
                Answer::Done
            }
            Call::Swap(value) => Answer::Value(self.value.replace(value)),
            Call::Cas(from, to) => {
                let holds = self.value == Some(from);
                if holds {
                    self.value = Some(to);
                }
                Answer::Held(holds)
            }
            Call::Count => Answer::Value(self.value),
            Call::Add(by) => {
                let sum = self.value.unwrap_or(0) + by;
                self.value = Some(sum);
                Answer::Value(Some(sum))
            }
            Call::Append(element) => {
                self.elements.push(element);
                Answer::Value(Some(self.elements.len() as i64))
            }
            Call::List => Answer::Elements(self.elements.clone()),
            Call::Push(element) => {
                self.elements.push(element);
                Answer::Done
            }
            Call::Pop if self.elements.is_empty() => Answer::Value(None),
            Call::Pop => Answer::Value(Some(self.elements.remove(0))),
            Call::Insert(_) => Answer::Value(Some(i64::from(self.value.replace(1).is_none()))),
            Call::Remove(_) => Answer::Value(Some(i64::from(self.value.take().is_some()))),
            Call::Has(_) => Answer::Value(Some(i64::from(self.value.is_some()))),
        }
    }
}

/// Whether a history of one object is linearizable.
pub(crate) fn is_linearizable(history: &History) -> bool {
    let left: Vec<&Operation> = history
        .operations()
        .iter()
        .filter(|operation| operation.answer != Answer::Refused)
        .collect();
    can_go_on(&Plain::default(), &left)
}

fn can_go_on(object: &Plain, left: &[&Operation]) -> bool {
    if left.iter().all(|operation| operation.is_open()) {
        return true;
    }
    let ended = |operation: &Operation| {
        if operation.is_open() {
            u64::MAX
        } else {
            operation.returned.unwrap_or(u64::MAX)
        }
    };
    left.iter().enumerate().any(|(index, operation)| {
        let is_first = left.iter().enumerate().all(|(other, earlier)| {
            let is_same = earlier.process == operation.process && !earlier.is_open();
            ended(earlier) >= operation.invoked && !(is_same && other < index)
        });
        if !is_first {
            return false;
        }
        let mut next = object.clone();
        let told = next.apply(operation.call);
        let agrees = operation.is_open() || number(operation, &told) == number(operation, &operation.answer);
        let rest: Vec<&Operation> = left
            .iter()
            .enumerate()
            .filter(|&(other, _)| other != index)
            .map(|(_, &operation)| operation)
            .collect();
        agrees && can_go_on(&next, &rest)
    })
}

/// A counter that is not there counts as 0.
fn number(operation: &Operation, answer: &Answer) -> Answer {
    match answer {
        Answer::Value(None) if operation.call == Call::Count => Answer::Value(Some(0)),
        _ => answer.clone(),
    }
}
