//! The owners of a device's extents: extents sorted by sector, and names by inode. Pure, and the
//! same for every file system.
//!
//! Memory is about 32 bytes per extent, and 40 bytes plus the name per file.
//!
//! What does not belong here: finding extents and names.

/// The use of a range of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RangeRole {
    /// Data of a file.
    Data,
    /// A directory's entries.
    Directory,
    /// A symbolic link's target.
    Symlink,
    /// The blocks that map a file's blocks.
    Mapping,
    /// A file's extended attributes.
    Attributes,
    /// The file system's journal or log.
    Journal,
    /// A superblock or a copy of it.
    Superblock,
    /// Group descriptors or allocation group headers.
    GroupDescriptors,
    /// The bitmap of used blocks.
    BlockBitmap,
    /// The bitmap of used inodes.
    InodeBitmap,
    /// A table of inodes.
    InodeTable,
    /// Blocks reserved for growing the file system.
    Reserved,
    /// Trees and other metadata, not distinguished.
    Metadata,
}

impl RangeRole {
    /// The word for it on screens and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            RangeRole::Data => "file",
            RangeRole::Directory => "directory",
            RangeRole::Symlink => "symbolic link",
            RangeRole::Mapping => "block map of file",
            RangeRole::Attributes => "extended attributes",
            RangeRole::Journal => "journal",
            RangeRole::Superblock => "superblock",
            RangeRole::GroupDescriptors => "group descriptors",
            RangeRole::BlockBitmap => "block bitmap",
            RangeRole::InodeBitmap => "inode bitmap",
            RangeRole::InodeTable => "inode table",
            RangeRole::Reserved => "reserved for growing",
            RangeRole::Metadata => "metadata",
        }
    }
}

/// A range of sectors and its use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first sector of 512 bytes, from the beginning of the file system.
    pub start: u64,
    /// The first sector after it.
    pub end: u64,
    /// The owner: an inode's key, 0 for the file system itself.
    pub owner: u64,
    /// The use of the range.
    pub role: RangeRole,
}

/// Extents and names while they are collected.
#[derive(Debug, Default)]
pub struct Builder {
    extents: Vec<Extent>,
    links: Vec<Link>,
    text: Vec<u8>,
}

/// A name of an inode.
#[derive(Clone, Copy, Debug)]
struct Link {
    inode: u64,
    parent: u64,
    /// The end of the name in the text; it begins where the previous one ends.
    from: u64,
    length: u32,
}

impl Builder {
    /// Adds a range of sectors; one that continues the last is merged with it.
    pub fn extent(&mut self, extent: Extent) {
        match self.extents.last_mut() {
            Some(last)
                if last.end == extent.start
                    && (last.owner, last.role) == (extent.owner, extent.role) =>
            {
                last.end = extent.end;
            }
            _ if extent.start < extent.end => self.extents.push(extent),
            _ => {}
        }
    }

    /// The number of ranges.
    pub fn extents(&self) -> usize {
        self.extents.len()
    }

    /// Adds a name of `inode` in the directory `parent`.
    pub fn link(&mut self, inode: u64, parent: u64, name: &[u8]) {
        let (from, length) = (self.text.len() as u64, name.len() as u32);
        self.text.extend_from_slice(name);
        self.links.push(Link { inode, parent, from, length });
    }

    /// The index; `root` is the key of the root directory.
    pub fn finish(mut self, root: u64) -> Index {
        self.extents.sort_unstable_by_key(|extent| (extent.start, extent.end, extent.owner));
        self.links.sort_unstable_by_key(|link| (link.inode, link.from));
        let mut reach = 0;
        let reaches = self.extents.iter().map(|extent| {
            reach = reach.max(extent.end);
            reach
        });
        let reaches = reaches.collect();
        self.text.shrink_to_fit();
        let Builder { extents, links, text } = self;
        Index { extents, reaches, links, text, root }
    }
}

/// Maps sectors to owners.
#[derive(Debug)]
pub struct Index {
    extents: Vec<Extent>,
    /// For each extent, the end of it and all before it: files can share extents.
    reaches: Vec<u64>,
    links: Vec<Link>,
    text: Vec<u8>,
    root: u64,
}

impl Index {
    /// A directory deeper than this is a loop in a damaged file system.
    const DEEPEST: usize = 1024;
    /// More owners of one sector are not searched for.
    const MOST_OWNERS: usize = 32;
    /// More names of one inode are not listed.
    const MOST_NAMES: usize = 32;

    /// The extents that hold `sector`: none, one, or several that share it.
    pub fn at(&self, sector: u64) -> Vec<Extent> {
        let mut found = Vec::new();
        let mut index = self.extents.partition_point(|extent| extent.start <= sector);
        while index > 0 && self.reaches[index - 1] > sector && found.len() < Self::MOST_OWNERS {
            index -= 1;
            let extent = self.extents[index];
            if extent.end > sector {
                found.push(extent);
            }
        }
        found.reverse();
        found
    }

    /// The paths of `inode` from the root of the file system; none if it has no name.
    pub fn paths(&self, inode: u64) -> Vec<Vec<u8>> {
        if inode == self.root {
            return vec![b"/".to_vec()];
        }
        self.links_of(inode).take(Self::MOST_NAMES).filter_map(|link| self.path(link)).collect()
    }

    fn links_of(&self, inode: u64) -> impl Iterator<Item = &Link> {
        let first = self.links.partition_point(|link| link.inode < inode);
        self.links.iter().skip(first).take_while(move |link| link.inode == inode)
    }

    fn path(&self, link: &Link) -> Option<Vec<u8>> {
        let mut names = vec![self.name(link)];
        let mut parent = link.parent;
        while parent != self.root {
            let link = self.links_of(parent).next()?;
            names.push(self.name(link));
            parent = link.parent;
            if names.len() > Self::DEEPEST {
                return None;
            }
        }
        names.reverse();
        let join = |path: Vec<u8>, name: &&[u8]| [&path, &b"/"[..], name].concat();
        Some(names.iter().fold(Vec::new(), join))
    }

    fn name(&self, link: &Link) -> &[u8] {
        let from = link.from as usize;
        self.text.get(from..from + link.length as usize).unwrap_or_default()
    }

    /// The numbers of extents and names, and the memory they use, bytes.
    pub fn size(&self) -> (usize, usize, usize) {
        let bytes = size_of_val(self.extents.as_slice())
            + size_of_val(self.reaches.as_slice())
            + size_of_val(self.links.as_slice())
            + self.text.len();
        (self.extents.len(), self.links.len(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_sectors_have_every_owner_and_names_lead_to_the_root() {
        let mut builder = Builder::default();
        let extent = |start, end, owner| Extent { start, end, owner, role: RangeRole::Data };
        for extent in [extent(100, 200, 5), extent(0, 1000, 6), extent(200, 300, 5)] {
            builder.extent(extent);
        }
        builder.link(5, 3, b"b");
        builder.link(3, 2, b"dir");
        builder.link(5, 2, b"a");
        builder.link(7, 8, b"x");
        builder.link(8, 7, b"y");
        let index = builder.finish(2);
        let owners = |sector| index.at(sector).iter().map(|e| e.owner).collect::<Vec<_>>();
        assert_eq!(owners(150), [6, 5]);
        assert_eq!(owners(299), [6, 5]);
        assert_eq!(owners(300), [6]);
        assert!(owners(1000).is_empty());
        assert_eq!(index.paths(5), [b"/dir/b".to_vec(), b"/a".to_vec()]);
        assert_eq!(index.paths(2), [b"/".to_vec()]);
        assert!(index.paths(7).is_empty() && index.paths(99).is_empty());
    }
}
