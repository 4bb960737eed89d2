//! HTTP/2 by hand, for what no client does.

use super::*;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// Flags of HEADERS: the last frame of the request, the last of its headers.
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
/// The first byte of the headers of an answer with status 200.
pub(super) const OK: u8 = 0x88;
/// Why connections and streams are ended.
pub(super) const NO_ERROR: u8 = 0;
pub(super) const REFUSED_STREAM: u8 = 7;
pub(super) const ENHANCE_YOUR_CALM: u8 = 11;

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

pub(super) struct Frames {
    stream: TlsStream<DuplexStream>,
    /// Whether it says that it is there when it is asked.
    pub(super) alive: bool,
}

impl Frames {
    pub(super) async fn new(plane: &Plane) -> Self {
        let mut stream = plane.connect().await.0;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        Self { stream, alive: true }
    }

    /// Whether the other side takes it.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Asks for something.
    pub(super) async fn get(&mut self, plane: &Plane, stream: u32, path: &str) -> bool {
        self.send(&frame(HEADERS, END_STREAM | END_HEADERS, stream, &get(&plane.token, path, &[]))).await
    }

    /// The next frame; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.stream.read_exact(&mut payload).await.ok()?;
            if head[3] == PING && head[4] == 0 && self.alive {
                self.send(&frame(PING, 1, 0, &payload)).await;
                continue;
            }
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            return Some(Frame { kind: head[3], flags: head[4], stream, payload });
        }
    }

    /// The first frame of this kind; `None` if there is none before the end.
    pub(super) async fn first(&mut self, wanted: u8) -> Option<Frame> {
        self.next_of(&[wanted]).await
    }

    /// The next frame of one of these kinds.
    pub(super) async fn next_of(&mut self, wanted: &[u8]) -> Option<Frame> {
        loop {
            match self.next().await? {
                frame if wanted.contains(&frame.kind) => return Some(frame),
                _ => {}
            }
        }
    }

    /// Why the connection is ended, as GOAWAY says.
    pub(super) async fn goaway(&mut self) -> Option<u8> {
        self.first(GOAWAY).await.map(|frame| frame.payload[7])
    }

    /// Whether the request is answered with 200; `None` if the connection is ended, or the stream.
    pub(super) async fn is_ok(&mut self, stream: u32) -> Option<bool> {
        loop {
            match self.next().await? {
                Frame { kind: HEADERS, stream: found, payload, .. } if found == stream => {
                    return Some(payload[0] == OK);
                }
                Frame { kind: RST_STREAM, stream: found, .. } if found == stream => return None,
                Frame { kind: GOAWAY, .. } => return None,
                _ => {}
            }
        }
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A GET: indexed method and scheme, everything else as it is.
pub(super) fn get(token: &str, path: &str, extra: &[(&str, &str)]) -> Vec<u8> {
    let mut block = [&[0x82, 0x87, 0x04][..], &text(path)].concat();
    for (name, value) in [("host", "x"), ("authorization", token)].iter().chain(extra) {
        block.extend([&[0x10][..], &text(name), &text(value)].concat());
    }
    block
}

fn text(text: &str) -> Vec<u8> {
    [number(text.len()), text.as_bytes().to_vec()].concat()
}

fn number(value: usize) -> Vec<u8> {
    let Some(mut rest) = value.checked_sub(127) else { return vec![value as u8] };
    let mut bytes = vec![127];
    while rest >= 128 {
        bytes.push((rest % 128) as u8 | 0x80);
        rest /= 128;
    }
    bytes.push(rest as u8);
    bytes
}
