//! Protocol buffer messages, assembled from parts. Fields can be encoded separately and in any order: the result is the
//! same as encoding the whole.

/// Appends a field with a length: text, or a message that is encoded already. Tags go up to 15.
pub(super) fn field(tag: u8, value: &[u8], to: &mut Vec<u8>) {
    /// The wire type of what has a length.
    const WITH_LENGTH: u8 = 2;
    to.push(tag << 3 | WITH_LENGTH);
    length(value.len(), to);
    to.extend_from_slice(value);
}

/// Appends a length as a varint: seven bits per byte, the lowest first. The eighth bit says whether more bytes follow.
pub(super) fn length(value: usize, to: &mut Vec<u8>) {
    let mut rest = value;
    while rest >= 0x80 {
        to.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    to.push(rest as u8);
}

/// A label, as a field of a metric.
pub(super) fn label(name: &str, value: &str) -> Vec<u8> {
    /// The tags of the labels of a metric, and of what they are made of.
    const LABEL: u8 = 1;
    const NAME: u8 = 1;
    const VALUE: u8 = 2;
    let (mut pair, mut label) = (Vec::new(), Vec::new());
    field(NAME, name.as_bytes(), &mut pair);
    field(VALUE, value.as_bytes(), &mut pair);
    field(LABEL, &pair, &mut label);
    label
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lengths_are_as_the_library_writes_them(value in 0_usize..1 << 40) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            length(value, &mut ours);
            prost::encode_length_delimiter(value, &mut theirs).unwrap();
            prop_assert_eq!(ours, theirs);
        }
    }
}
