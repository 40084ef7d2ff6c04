//! Whether bytes are an object that a replica would take: for who reads backups without a replica.

use crate::object_codec::{Head, LAST_FLAT, check, decode};
use codec::{DecodeError, Reader};

/// Decodes the object with this head (all that stands before the value, `object_codec.rs`) and this value, as a replica does.
///
/// # Errors
/// The head is none, or the value is none in this form; of a large collection also that it has a member twice.
pub fn check_object(head: &[u8], value: &[u8]) -> Result<(), DecodeError> {
    let mut rest = Reader::new(head);
    let head = Head::read(&mut rest)?;
    rest.end()?;
    let of_value = Reader::new(value);
    if !check(head.form, value) {
        return Err(of_value.error("a value of the form that its head says"));
    }
    if head.form > LAST_FLAT && decode(head.form, head.key, value, head.deadline).is_none() {
        return Err(of_value.error("a collection that has each member once"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use codec::Writer;

    fn head(form: u8) -> Vec<u8> {
        let mut head = Vec::new();
        head.bytes(b"key");
        head.u8(0);
        head.i64(0);
        head.u8(form);
        head
    }

    #[test]
    fn objects_pass_and_others_do_not() {
        assert_eq!(check_object(&head(0), b"any bytes"), Ok(()));
        let mut set = Vec::new();
        set.u64s(&[1, 2]);
        set.bytes(b"a");
        set.bytes(b"b");
        assert_eq!(check_object(&head(7), &set), Ok(()));
        set.bytes(b"a");
        assert!(check_object(&head(7), &set).is_err(), "a member is there twice");
        assert!(
            check_object(&head(7), &set[..16]).is_err(),
            "there are no empty collections"
        );
        assert!(check_object(&head(1), b"no listpack").is_err());
        assert!(check_object(&head(200), b"").is_err());
        assert!(check_object(b"", b"").is_err());
        assert!(check_object(&[head(0), vec![0]].concat(), b"").is_err());
    }
}
