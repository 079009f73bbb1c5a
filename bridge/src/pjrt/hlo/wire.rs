//! Protocol buffers as they are on the wire: numbered fields, read without a schema.

/// Why bytes are no message, or not the one that was expected.
pub(super) type Malformed = String;
pub(super) type Read<T> = Result<T, Malformed>;

#[derive(Clone, Copy)]
enum Field<'a> {
    Varint(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(&'a [u8]),
}

/// One message: its fields in the order in which they were written.
#[derive(Default)]
pub(super) struct Message<'a> {
    fields: Vec<(u32, Field<'a>)>,
}

fn varint(bytes: &mut &[u8]) -> Read<u64> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            *bytes = &bytes[i + 1..];
            return Ok(value);
        }
    }
    Err("a number that does not end".to_owned())
}

fn take<'a>(bytes: &mut &'a [u8], count: u64, of: u32) -> Read<&'a [u8]> {
    let split = usize::try_from(count).ok().and_then(|n| bytes.split_at_checked(n));
    let (taken, rest) = split.ok_or_else(|| format!("field {of} has {count} bytes where {} are left", bytes.len()))?;
    *bytes = rest;
    Ok(taken)
}

fn array<'a, const N: usize>(bytes: &mut &'a [u8], of: u32) -> Read<[u8; N]> {
    let taken: &'a [u8] = take(bytes, N as u64, of)?;
    taken.try_into().map_err(|_| format!("field {of} is cut short"))
}

impl<'a> Message<'a> {
    pub fn parse(mut bytes: &'a [u8]) -> Read<Self> {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes)?;
            let number = u32::try_from(key >> 3).ok().filter(|&n| n > 0).ok_or("a field without a number")?;
            let field = match key & 7 {
                0 => Field::Varint(varint(&mut bytes)?),
                1 => Field::Eight(array(&mut bytes, number)?),
                2 => {
                    let count = varint(&mut bytes)?;
                    Field::Bytes(take(&mut bytes, count, number)?)
                }
                5 => Field::Four(array(&mut bytes, number)?),
                other => return Err(format!("field {number} is of wire type {other}")),
            };
            fields.push((number, field));
        }
        Ok(Self { fields })
    }

    fn all(&self, number: u32) -> impl DoubleEndedIterator<Item = Field<'a>> {
        self.fields.iter().filter(move |(n, _)| *n == number).map(|(_, field)| *field)
    }

    pub fn has(&self, number: u32) -> bool {
        self.all(number).next().is_some()
    }

    /// An integer, an enum's number or a boolean; 0 where there is none, as protocol buffers mean it.
    pub fn int(&self, number: u32) -> Read<i64> {
        match self.all(number).next_back() {
            None => Ok(0),
            Some(Field::Varint(value)) => Ok(value as i64),
            Some(_) => Err(format!("field {number} is no integer")),
        }
    }

    pub fn bool(&self, number: u32) -> Read<bool> {
        Ok(self.int(number)? != 0)
    }

    pub fn float(&self, number: u32) -> Read<f32> {
        match self.all(number).next_back() {
            None => Ok(0.),
            Some(Field::Four(bytes)) => Ok(f32::from_le_bytes(bytes)),
            Some(_) => Err(format!("field {number} is no float")),
        }
    }

    /// Bytes; none where the field is missing.
    pub fn bytes(&self, number: u32) -> Read<&'a [u8]> {
        match self.all(number).next_back() {
            None => Ok(&[]),
            Some(Field::Bytes(bytes)) => Ok(bytes),
            Some(_) => Err(format!("field {number} is no bytes")),
        }
    }

    pub fn text(&self, number: u32) -> Read<&'a str> {
        std::str::from_utf8(self.bytes(number)?).map_err(|why| format!("field {number} is no text: {why}"))
    }

    pub fn texts(&self, number: u32) -> Read<Vec<&'a str>> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|why| format!("field {number} is no text: {why}"));
        self.parts(number)?.into_iter().map(text).collect()
    }

    pub fn message(&self, number: u32) -> Read<Option<Message<'a>>> {
        Ok(self.messages(number)?.pop())
    }

    pub fn messages(&self, number: u32) -> Read<Vec<Message<'a>>> {
        self.parts(number)?.into_iter().map(Message::parse).collect()
    }

    fn parts(&self, number: u32) -> Read<Vec<&'a [u8]>> {
        let bytes = |field| match field {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(format!("field {number} is no message")),
        };
        self.all(number).map(bytes).collect()
    }

    /// A list of integers, packed or one by one.
    pub fn ints(&self, number: u32) -> Read<Vec<i64>> {
        let mut out = Vec::new();
        for field in self.all(number) {
            match field {
                Field::Varint(value) => out.push(value as i64),
                Field::Bytes(mut packed) => {
                    while !packed.is_empty() {
                        out.push(varint(&mut packed)? as i64);
                    }
                }
                _ => return Err(format!("field {number} is no list of integers")),
            }
        }
        Ok(out)
    }

    /// The bytes of a list of numbers of `width` bytes each, packed or one by one.
    pub fn fixed(&self, number: u32, width: usize) -> Read<Vec<u8>> {
        let mut out = Vec::new();
        for field in self.all(number) {
            match field {
                Field::Bytes(packed) if packed.len().is_multiple_of(width) => out.extend_from_slice(packed),
                Field::Four(bytes) if width == 4 => out.extend_from_slice(&bytes),
                Field::Eight(bytes) if width == 8 => out.extend_from_slice(&bytes),
                _ => return Err(format!("field {number} is no list of numbers of {width} bytes")),
            }
        }
        Ok(out)
    }
}
