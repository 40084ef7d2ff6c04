//! One operation: what a client asked, when, and what it was told.

/// A client, or a connection of one. What one process asks of one object takes effect in the order in which it asked, even
/// where it did not wait: connections keep their order. One that does not know what became of an operation goes on as
/// another process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Process(pub u32);

/// What kind of object a key is used as.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    /// One value.
    Register,
    /// One number.
    Counter,
    /// A list that only grows, at its end.
    List,
    /// First in, first out.
    Queue,
    /// One member of a set: there or not. Operations on other members are of other objects.
    Member(i64),
}

/// What a client asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Call {
    /// Register: its value.
    Get,
    /// Register: another value.
    Set(i64),
    /// Register: another value; the answer is the one before.
    Swap(i64),
    /// Register: another value if it holds the first of these.
    Cas(i64, i64),
    /// Counter: its value; one that was never added to is 0.
    Count,
    /// Counter: so much more; the answer is the sum.
    Add(i64),
    /// List: another element at the end; the answer is the length.
    Append(i64),
    /// List: all of it.
    List,
    /// Queue: another element at the end. Each is pushed once.
    Push(i64),
    /// Queue: the first element, which is taken away.
    Pop,
    /// Set: this member; the answer is 1 if it is new.
    Insert(i64),
    /// Set: no longer this member; the answer is 1 if it was one.
    Remove(i64),
    /// Set: 1 if it has this member.
    Has(i64),
}

impl Call {
    /// As what the key is used.
    pub fn family(self) -> Family {
        match self {
            Call::Get | Call::Set(_) | Call::Swap(_) | Call::Cas(..) => Family::Register,
            Call::Count | Call::Add(_) => Family::Counter,
            Call::Append(_) | Call::List => Family::List,
            Call::Push(_) | Call::Pop => Family::Queue,
            Call::Insert(member) | Call::Remove(member) | Call::Has(member) => Family::Member(member),
        }
    }
}

/// What a client was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing, or that nobody knows: the operation may have happened, may still happen, or not.
    Unknown,
    /// That it certainly did not happen.
    Refused,
    /// That it happened.
    Done,
    /// A value, or that there is none.
    Value(Option<i64>),
    /// Whether the condition held.
    Held(bool),
    /// All elements.
    Elements(Vec<i64>),
}

/// What one client asked of one key, and what it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Who asked.
    pub process: Process,
    /// Of which key.
    pub key: String,
    /// When it asked, in any unit that is the same for the whole history.
    pub invoked: u64,
    /// When it was answered; `None` if it never was. Without meaning if the answer is [`Answer::Unknown`].
    pub returned: Option<u64>,
    /// What it asked.
    pub call: Call,
    /// What it was told.
    pub answer: Answer,
}

impl Operation {
    /// Whether it may have happened at any moment after its call, or never.
    pub fn is_open(&self) -> bool {
        self.returned.is_none() || self.answer == Answer::Unknown
    }
}
