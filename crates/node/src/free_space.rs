//! What is free on the disk.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that are free for this process on the file system of a directory; `None` if the system does not say.
pub(crate) fn bytes(directory: &Path) -> Option<u64> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    let mut stats = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the system writes one `statvfs` behind the pointer, which has room for it.
    let result = unsafe { libc::statvfs(path.as_ptr(), stats.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, so it has written all of it.
    let stats = unsafe { stats.assume_init() };
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_some_and_what_is_not_there_has_none() {
        assert!(bytes(&std::env::temp_dir()).is_some_and(|bytes| bytes > 0));
        assert_eq!(bytes(Path::new("/nowhere/at/all")), None);
    }
}
