//! Queued bios of all devices by start sector: one red-black tree per device in one arena.
//!
//! A red-black tree, because btt's walk over a range leaves out subtrees in a way that depends on
//! the tree's shape wherever queued ranges overlap; a balanced tree with the same rules (Cormen et
//! al., the successor takes the place of a removed node) has the same shape.

/// A node's index in the arena; [`NIL`] is no node.
pub type Link = u32;
/// No node, and the black sentinel below every leaf.
pub const NIL: Link = 0;
/// No time.
pub const NEVER: u64 = u64::MAX;

/// A queued bio and its events so far.
#[derive(Clone, Debug)]
pub struct Bio {
    /// First sector.
    pub start: u64,
    /// First sector behind it.
    pub end: u64,
    /// Q.
    pub queued: u64,
    /// G, or [`NEVER`].
    pub got: u64,
    /// I, or [`NEVER`].
    pub inserted: u64,
    /// M or F, or [`NEVER`].
    pub merged: u64,
    /// S, or [`NEVER`].
    pub slept: u64,
    /// The last D, or [`NEVER`].
    pub issued: u64,
    /// The first sector of that D, and the number of sectors.
    pub issued_range: (u64, u64),
    /// The process that queued it.
    pub process: u32,
}

/// An item with the key that a tree is ordered by.
pub trait TreeStart {
    /// The key.
    fn start(&self) -> u64;
}

impl TreeStart for Bio {
    #[inline]
    fn start(&self) -> u64 {
        self.start
    }
}

#[derive(Clone, Debug)]
struct TreeNode<T> {
    item: T,
    left: Link,
    right: Link,
    parent: Link,
    red: bool,
}

/// The arena.
#[derive(Debug)]
pub struct Trees<T> {
    nodes: Vec<TreeNode<T>>,
    free: Vec<Link>,
}

impl Default for Bio {
    fn default() -> Bio {
        Bio {
            start: 0,
            end: 0,
            queued: 0,
            got: NEVER,
            inserted: NEVER,
            merged: NEVER,
            slept: NEVER,
            issued: NEVER,
            issued_range: (0, 0),
            process: 0,
        }
    }
}

impl<T: Default> Default for Trees<T> {
    fn default() -> Trees<T> {
        let sentinel =
            TreeNode { item: T::default(), left: NIL, right: NIL, parent: NIL, red: false };
        Trees { nodes: vec![sentinel], free: Vec::new() }
    }
}

// Links come from the arena itself, so every index below is in bounds.
impl<T: TreeStart> Trees<T> {
    fn node(&self, link: Link) -> &TreeNode<T> {
        &self.nodes[link as usize]
    }

    fn node_mut(&mut self, link: Link) -> &mut TreeNode<T> {
        &mut self.nodes[link as usize]
    }

    /// The item at `link`.
    #[inline]
    pub fn item(&mut self, link: Link) -> &mut T {
        &mut self.nodes[link as usize].item
    }

    /// Returns the number of bios that are kept.
    pub fn len(&self) -> usize {
        self.nodes.len() - 1 - self.free.len()
    }

    /// Returns whether no bio is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bio that starts at `sector` exactly.
    #[inline]
    pub fn find(&self, root: Link, sector: u64) -> Option<Link> {
        let mut at = root;
        while at != NIL {
            let node = self.node(at);
            at = match sector.cmp(&node.item.start()) {
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
                std::cmp::Ordering::Equal => return Some(at),
            };
        }
        None
    }

    /// Adds a bio, and replaces one with the same start.
    pub fn insert(&mut self, root: &mut Link, item: T) {
        let (mut parent, mut at) = (NIL, *root);
        while at != NIL {
            parent = at;
            let node = self.node_mut(at);
            at = match item.start().cmp(&node.item.start()) {
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
                std::cmp::Ordering::Equal => {
                    node.item = item;
                    return;
                }
            };
        }
        let below_left = parent != NIL && item.start() < self.node(parent).item.start();
        let link = self.store(TreeNode { item, left: NIL, right: NIL, parent, red: true });
        match parent {
            NIL => *root = link,
            _ if below_left => self.node_mut(parent).left = link,
            _ => self.node_mut(parent).right = link,
        }
        self.balance_insertion(root, link);
    }

    fn store(&mut self, node: TreeNode<T>) -> Link {
        match self.free.pop() {
            Some(link) => {
                *self.node_mut(link) = node;
                link
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as Link
            }
        }
    }

    /// Calls `see` for every item, a parent before (`true`) and after (`false`) its children.
    pub fn walk(&self, root: Link, see: &mut impl FnMut(&T, bool)) {
        if root != NIL {
            let TreeNode { item, left, right, .. } = self.node(root);
            see(item, true);
            self.walk(*left, see);
            self.walk(*right, see);
            see(item, false);
        }
    }

    /// Every item of the tree, in order.
    pub fn all(&self, root: Link, found: &mut Vec<Link>) {
        if root != NIL {
            let (left, right) = (self.node(root).left, self.node(root).right);
            self.all(left, found);
            found.push(root);
            self.all(right, found);
        }
    }

    fn rotate(&mut self, root: &mut Link, at: Link, left: bool) {
        let up = if left { self.node(at).right } else { self.node(at).left };
        let inner = if left { self.node(up).left } else { self.node(up).right };
        let parent = self.node(at).parent;
        if left {
            self.node_mut(at).right = inner;
            self.node_mut(up).left = at;
        } else {
            self.node_mut(at).left = inner;
            self.node_mut(up).right = at;
        }
        if inner != NIL {
            self.node_mut(inner).parent = at;
        }
        self.node_mut(up).parent = parent;
        self.node_mut(at).parent = up;
        self.replace_child(root, parent, at, up);
    }

    fn replace_child(&mut self, root: &mut Link, parent: Link, old: Link, new: Link) {
        if parent == NIL {
            *root = new;
        } else if self.node(parent).left == old {
            self.node_mut(parent).left = new;
        } else {
            self.node_mut(parent).right = new;
        }
    }

    fn balance_insertion(&mut self, root: &mut Link, mut at: Link) {
        while self.node(self.node(at).parent).red {
            let parent = self.node(at).parent;
            let grand = self.node(parent).parent;
            let left = self.node(grand).left == parent;
            let uncle = if left { self.node(grand).right } else { self.node(grand).left };
            if self.node(uncle).red {
                self.node_mut(parent).red = false;
                self.node_mut(uncle).red = false;
                self.node_mut(grand).red = true;
                at = grand;
                continue;
            }
            let inner = if left { self.node(parent).right } else { self.node(parent).left };
            let mut parent = parent;
            if at == inner {
                self.rotate(root, parent, left);
                std::mem::swap(&mut at, &mut parent);
            }
            self.node_mut(parent).red = false;
            self.node_mut(grand).red = true;
            self.rotate(root, grand, !left);
        }
        let root = *root;
        self.node_mut(root).red = false;
    }

    /// Removes the bio at `link`.
    pub fn remove(&mut self, root: &mut Link, link: Link) {
        let &TreeNode { left, right, parent, red, .. } = self.node(link);
        let (moved, moved_parent, lost_black);
        if left == NIL || right == NIL {
            moved = if left == NIL { right } else { left };
            moved_parent = parent;
            lost_black = !red;
            self.node_mut(moved).parent = parent;
            self.replace_child(root, parent, link, moved);
        } else {
            let mut next = right;
            while self.node(next).left != NIL {
                next = self.node(next).left;
            }
            moved = self.node(next).right;
            lost_black = !self.node(next).red;
            moved_parent = if next == right { next } else { self.node(next).parent };
            if next != right {
                self.node_mut(moved_parent).left = moved;
                self.node_mut(moved).parent = moved_parent;
                self.node_mut(next).right = right;
                self.node_mut(right).parent = next;
            }
            self.node_mut(next).left = left;
            self.node_mut(left).parent = next;
            self.node_mut(next).parent = parent;
            self.node_mut(next).red = red;
            self.replace_child(root, parent, link, next);
        }
        if lost_black {
            self.node_mut(moved).parent = moved_parent;
            self.balance_removal(root, moved);
        }
        self.node_mut(NIL).parent = NIL;
        self.free.push(link);
    }

    fn balance_removal(&mut self, root: &mut Link, mut at: Link) {
        while at != *root && !self.node(at).red {
            let parent = self.node(at).parent;
            let left = self.node(parent).left == at;
            let sibling_of = |trees: &Trees<T>| {
                if left { trees.node(parent).right } else { trees.node(parent).left }
            };
            let mut sibling = sibling_of(self);
            if self.node(sibling).red {
                self.node_mut(sibling).red = false;
                self.node_mut(parent).red = true;
                self.rotate(root, parent, left);
                sibling = sibling_of(self);
            }
            let (a, b) = (self.node(sibling).left, self.node(sibling).right);
            let (near, far) = if left { (a, b) } else { (b, a) };
            if !self.node(near).red && !self.node(far).red {
                self.node_mut(sibling).red = true;
                at = parent;
                continue;
            }
            if !self.node(far).red {
                self.node_mut(near).red = false;
                self.node_mut(sibling).red = true;
                self.rotate(root, sibling, !left);
                sibling = sibling_of(self);
            }
            let sibling_far = if left { self.node(sibling).right } else { self.node(sibling).left };
            self.node_mut(sibling).red = self.node(parent).red;
            self.node_mut(parent).red = false;
            self.node_mut(sibling_far).red = false;
            self.rotate(root, parent, left);
            at = *root;
        }
        self.node_mut(at).red = false;
    }
}

impl Trees<Bio> {
    /// The bios inside `start..end`, as far as btt's walk finds them, in its order.
    #[inline]
    pub fn inside(&self, root: Link, start: u64, end: u64, found: &mut Vec<Link>) {
        let mut at = root;
        while at != NIL {
            let TreeNode { item: bio, left, right, .. } = self.node(at);
            if start <= bio.start && bio.end <= end {
                found.push(at);
            }
            if start < bio.start && *left != NIL {
                self.inside(*left, start, end, found);
            }
            if bio.end < end || bio.start < start {
                at = *right;
            } else {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn bio(start: u64) -> Bio {
        Bio { start, end: start + 8, ..Bio::default() }
    }

    /// Black height of a subtree, checking order, colours and parents on the way.
    fn check(trees: &Trees<Bio>, at: Link) -> usize {
        if at == NIL {
            return 1;
        }
        let node = trees.node(at);
        for child in [node.left, node.right] {
            assert!(child == NIL || trees.node(child).parent == at);
            assert!(!(node.red && trees.node(child).red));
        }
        let (left, right) = (check(trees, node.left), check(trees, node.right));
        assert_eq!(left, right);
        left + usize::from(!node.red)
    }

    #[test]
    fn stays_balanced_and_complete() {
        let (mut trees, mut root) = (Trees::default(), NIL);
        let mut model = BTreeMap::new();
        let mut seed = 7u64;
        for step in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sector = (seed >> 33) % 512 * 8;
            if model.remove(&sector).is_some() {
                let link = trees.find(root, sector).unwrap();
                trees.remove(&mut root, link);
            } else {
                model.insert(sector, ());
                trees.insert(&mut root, bio(sector));
            }
            if step % 64 == 0 {
                check(&trees, root);
            }
            assert_eq!(trees.len(), model.len());
        }
        let mut found = Vec::new();
        trees.inside(root, 800, 1600, &mut found);
        assert_eq!(found.len(), model.range(800..=1592).count());
    }
}
