//! Archives as the kernel takes them for its first file system: cpio in the format `newc`
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

/// An archive that grows.
#[derive(Default)]
pub(super) struct Cpio {
    bytes: Vec<u8>,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

impl Cpio {
    /// Adds a directory; those above it must be there.
    pub(super) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, (0, 0), &[]);
    }

    /// Adds a file that may be run.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, (0, 0), content);
    }

    /// Adds a character device.
    pub(super) fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(name, CHARACTER_DEVICE, (major, minor), &[]);
    }

    /// The archive with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.inode += 1;
        // Sizes beyond 4 GB do not occur: QEMU would not load them either.
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_size = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let (links, owner, time, on, check) = (1, 0, 0, 0, 0);
        let fields = [self.inode, mode, owner, owner, links, time, size, on, on, device.0, device.1, name_size, check];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(content);
        self.align();
    }

    /// Names and contents end at a multiple of four.
    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_format_says() {
        let mut cpio = Cpio::default();
        cpio.directory("etc");
        cpio.file("etc/a", b"hello");
        cpio.device("null", 1, 3);
        let bytes = cpio.finish();
        assert_eq!(bytes.len() % 4, 0);
        // A header of 110 bytes, "etc", a zero, and padding to 116; then the file.
        assert!(bytes.starts_with(b"07070100000001000041ed"));
        assert_eq!(&bytes[110..116], b"etc\0\0\0");
        assert_eq!(&bytes[116..130], b"07070100000002");
        // Its size, and its content behind the padded name.
        assert_eq!(&bytes[116 + 54..116 + 62], b"00000005");
        assert_eq!(&bytes[116 + 116..116 + 124], b"hello\0\0\0");
        assert!(bytes.ends_with(b"TRAILER!!!\0\0\0\0"));
    }
}
