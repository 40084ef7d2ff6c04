//! Scripts that append to lists and read them, as [lists](super::lists) are by other commands: what a script does is one transaction,
//! whichever keys it has declared.

use super::lists::ListHistory;
use super::{Checked, Command, Draw, End, Step, Workload, command};
use crate::reply::Reply;
use history::list_append::Action;

/// For each pair of words a list, and what to append to it; or nothing, to read it.
const SCRIPT: &str = "local replies = {}
for at = 1, #ARGV, 2 do
    local key, element = ARGV[at], ARGV[at + 1]
    if element == '' then
        replies[#replies + 1] = redis.call('LRANGE', key, 0, -1)
    else
        replies[#replies + 1] = redis.call('RPUSH', key, element)
    end
end
return replies";

/// What makes a script go on on the thread for offload jobs, where it stands in its stead: it makes a string that is long.
const HEAVY: &str = "local _ = string.rep(' ', 300000)\n";

/// See the file's header.
#[derive(Default)]
pub(crate) struct Scripts {
    history: ListHistory,
}

#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// What is done, one after the other.
    steps: Vec<ListStep>,
    /// How many of them the script does. If not all, the others stand behind it in one `MULTI`.
    scripted: usize,
    /// Whether a script that only reads says so.
    says_so: bool,
    /// Whether the script makes something large, before it does anything or behind that.
    makes_much: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
enum Moment {
    Before,
    Behind,
}

/// An append to a list, or a read of it.
#[derive(Clone, Debug)]
struct ListStep {
    list: u64,
    element: Option<i64>,
    /// Whether the script says that it will name the list.
    is_declared: bool,
}

impl ListStep {
    fn key(&self) -> String {
        format!("tp{}", self.list)
    }
}

impl Workload for Scripts {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        let count = 1 + draw.below(4);
        // All of it in one group, most of it, or anywhere.
        let (first, stays) = (draw.below(draw.keys), draw.below(3));
        let declares = draw.below(4) > 0;
        let steps = (0..count).map(|_| {
            let list = match draw.below(2) < stays {
                true => first,
                false => draw.below(draw.keys),
            };
            let appends = !draw.is_read && draw.below(3) > 0;
            ListStep {
                list,
                element: appends.then(|| self.history.next_element()),
                is_declared: declares || draw.below(2) == 0,
            }
        });
        let steps: Vec<ListStep> = steps.collect();
        let scripted = match draw.below(4) {
            0 => 1 + draw.below(count) as usize,
            _ => steps.len(),
        };
        let says_so = draw.below(2) == 0;
        let makes_much = match draw.below(16) {
            0 => Some(Moment::Before),
            1 => Some(Moment::Behind),
            _ => None,
        };
        Task {
            steps,
            scripted,
            says_so,
            makes_much,
        }
    }

    fn read_all(&self, keys: u64) -> Option<Task> {
        let steps = (0..keys).map(|list| ListStep {
            list,
            element: None,
            is_declared: true,
        });
        Some(Task {
            steps: steps.collect(),
            scripted: keys as usize,
            says_so: true,
            makes_much: None,
        })
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        let mut again = task.clone();
        for element in again.steps.iter_mut().filter_map(|step| step.element.as_mut()) {
            *element = self.history.next_element();
        }
        Some(again)
    }

    fn step(&mut self, task: &Task, _: &[i64], _: u64, _: u64) -> Option<Step> {
        let (scripted, plain) = task.steps.split_at(task.scripted);
        let script = call(scripted, task.says_so, task.makes_much);
        Some(match plain {
            [] => Step::one(script),
            plain => Step::block(std::iter::once(script).chain(plain.iter().map(
                |step| match step.element {
                    Some(element) => command!["RPUSH", step.key(), element],
                    None => command!["LRANGE", step.key(), "0", "-1"],
                },
            ))),
        })
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let told = match end.told {
            None => None,
            Some([Reply::Array(first), others @ ..])
                if first.len() == task.scripted && first.len() + others.len() == task.steps.len() =>
            {
                Some(first.iter().chain(others).collect::<Vec<&Reply>>())
            }
            Some(_) => return Err(end.unexpected()),
        };
        let action = |(index, step): (usize, &ListStep)| {
            let reply = told.as_ref().map(|told| told[index]);
            ListHistory::action(step.key(), step.element, reply, end)
        };
        let actions: Result<Vec<Action>, String> = task.steps.iter().enumerate().map(action).collect();
        self.history.push(end, actions?);
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        self.history.check()
    }
}

/// The call of the script for these steps. If it only reads it may say so.
fn call(steps: &[ListStep], says_so: bool, makes_much: Option<Moment>) -> Command {
    let declared = steps.iter().filter(|step| step.is_declared);
    let mut keys: Vec<String> = declared.map(ListStep::key).collect();
    keys.dedup();
    let reads = steps.iter().all(|step| step.element.is_none());
    let name = if reads && says_so { "EVAL_RO" } else { "EVAL" };
    let source = match makes_much {
        None => SCRIPT.to_owned(),
        Some(Moment::Before) => format!("{HEAVY}{SCRIPT}"),
        Some(Moment::Behind) => SCRIPT.replace("return replies", &format!("{HEAVY}return replies")),
    };
    let mut words = command![name, source, keys.len()];
    words.extend(keys);
    for step in steps {
        let element = step
            .element
            .map_or_else(String::new, |element| element.to_string());
        words.extend([step.key(), element]);
    }
    words
}
