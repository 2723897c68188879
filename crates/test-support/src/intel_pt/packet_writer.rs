//! Writes Intel PT packets by the encodings of the Intel SDM (vol. 3C, "Packet
//! Definitions").
//!
//! Written from the manual and not with libipt's encoder: a misreading that
//! encoder and decoder share would otherwise pass unseen.
//!
//! Deliberately absent: which packet is due when (`tracer/writer.rs` knows), and
//! MTC, CYC and CBR packets, transactions, power and virtualisation.

/// How many bytes of an address a packet repeats.
#[derive(Clone, Copy, Debug)]
pub enum AddressBytes {
    /// As few as the address before allows.
    Fewest,
    /// 2, 4, 6 or 8, unless there is no address before.
    Always(u8),
}

pub struct PacketWriter {
    bytes: Vec<u8>,
    tnt_capacity: u32,
    address_bytes: AddressBytes,
    /// Outcomes that are yet to be written, the newest in bit 0.
    outcomes: u64,
    count: u32,
    /// What the next address is compressed against.
    last_ip: Option<u64>,
}

impl PacketWriter {
    /// Up to 6 outcomes fit a short TNT packet, 47 a long one.
    pub fn new(tnt_capacity: u32, address_bytes: AddressBytes) -> Self {
        Self {
            bytes: Vec::new(),
            tnt_capacity,
            address_bytes,
            outcomes: 0,
            count: 0,
            last_ip: None,
        }
    }

    /// Bytes written so far, without outcomes that wait for their packet.
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.bytes
    }

    /// A PSB leaves nothing to compress against (SDM, "IP Compression").
    pub fn psb(&mut self) {
        self.raw(&[0x02, 0x82].repeat(8));
        self.last_ip = None;
    }

    pub fn psb_end(&mut self) {
        self.raw(&[0x02, 0x23]);
    }

    /// A PSB with the state it must restate while tracing is on.
    pub fn psb_plus(&mut self, ip: u64) {
        self.psb();
        self.mode_64();
        self.fup(ip);
        self.psb_end();
    }

    pub fn mode_64(&mut self) {
        self.raw(&[0x99, 0x01]);
    }

    pub fn tsc(&mut self, tsc: u64) {
        self.raw(&[0x19]);
        self.raw(&tsc.to_le_bytes()[..7]);
    }

    /// The outcome of a conditional branch, or a compressed return.
    pub fn outcome(&mut self, taken: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(taken);
        self.count += 1;
        if self.count == self.tnt_capacity {
            self.flush();
        }
    }

    pub fn tip(&mut self, ip: u64) {
        self.address(0x0d, ip);
    }

    /// Tracing goes on.
    pub fn tip_pge(&mut self, ip: u64) {
        self.address(0x11, ip);
    }

    /// Tracing goes off; on entry to the kernel not even the address is told.
    pub fn tip_pgd(&mut self, ip: Option<u64>) {
        match ip {
            Some(ip) => self.address(0x01, ip),
            None => self.raw(&[0x01]),
        }
    }

    pub fn fup(&mut self, ip: u64) {
        self.address(0x1d, ip);
    }

    /// Packets were lost. Like a PSB it leaves nothing to compress against.
    pub fn ovf(&mut self) {
        self.raw(&[0x02, 0xf3]);
        self.last_ip = None;
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.flush();
        self.bytes.extend(bytes);
    }

    /// SDM, "IP Compression".
    fn address(&mut self, opcode: u8, ip: u64) {
        use AddressBytes::*;
        let last = self.last_ip.replace(ip);
        let same_above = |bits: u32| last.is_some_and(|last| last >> bits == ip >> bits);
        let (kind, length) = match self.address_bytes {
            Fewest if same_above(16) => (0b001, 2),
            Fewest if same_above(32) => (0b010, 4),
            Fewest => (0b011, 6),
            Always(_) if last.is_none() => (0b011, 6),
            Always(2) => (0b001, 2),
            Always(4) => (0b010, 4),
            Always(6) => (0b100, 6),
            Always(8) => (0b110, 8),
            Always(other) => panic!("no address packet has {other} bytes"),
        };
        self.raw(&[kind << 5 | opcode]);
        self.raw(&ip.to_le_bytes()[..length]);
    }

    /// A stop bit, then the outcomes, oldest first.
    fn flush(&mut self) {
        let bits = 1 << self.count | self.outcomes;
        match self.count {
            0 => return,
            1..=6 => self.bytes.push((bits << 1) as u8),
            _ => {
                self.bytes.extend([0x02, 0xa3]);
                self.bytes.extend(&bits.to_le_bytes()[..6]);
            }
        }
        (self.outcomes, self.count) = (0, 0);
    }
}
