//! blktrace's records written by hand, for captures of a few events with exact values.

/// One record, its numbers written out as blktrace_api.h has them.
#[derive(Clone, Copy)]
pub struct RecordBytes<'a> {
    pub version: u8,
    pub big_endian: bool,
    pub sequence: u32,
    pub time: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u32,
    pub pid: u32,
    pub device: u32,
    pub cpu: u32,
    pub payload: &'a [u8],
}

/// Q, G, I, D, C of reads: category << 16 | action.
pub const STEPS: [u32; 5] = [0x11_0001, 0x11_0004, 0x11_000c, 0x41_0007, 0x81_0008];

impl RecordBytes<'_> {
    /// Event `number` of an endless row of reads.
    pub fn for_number(number: u32) -> RecordBytes<'static> {
        let step = STEPS[number as usize % STEPS.len()];
        RecordBytes {
            version: 7,
            big_endian: false,
            sequence: number + 1,
            time: 1_000_000 + u64::from(number) * 1000,
            sector: 8 * u64::from(number / 5),
            bytes: 4096,
            action: step,
            pid: 77,
            device: 8 << 20,
            cpu: 0,
            payload: &[],
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |little: &[u8]| match self.big_endian {
            true => out.extend(little.iter().rev()),
            false => out.extend(little),
        };
        put(&(0x6561_7400 | u32::from(self.version)).to_le_bytes());
        put(&self.sequence.to_le_bytes());
        put(&self.time.to_le_bytes());
        put(&self.sector.to_le_bytes());
        put(&self.bytes.to_le_bytes());
        match self.version {
            8 => {
                put(&self.pid.to_le_bytes());
                put(&u64::from(self.action).to_le_bytes());
            }
            _ => {
                put(&self.action.to_le_bytes());
                put(&self.pid.to_le_bytes());
            }
        }
        put(&self.device.to_le_bytes());
        put(&self.cpu.to_le_bytes());
        put(&0u16.to_le_bytes());
        put(&(self.payload.len() as u16).to_le_bytes());
        if self.version == 8 {
            put(&[0; 12]);
        }
        out.extend(self.payload);
        out
    }
}
