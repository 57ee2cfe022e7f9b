/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* The file in a system call's arguments, and file systems that have a server. */
#ifndef IOWHY_CALL_FILES_H
#define IOWHY_CALL_FILES_H

#include "submitters.bpf.h"
#include "watched_devices.bpf.h"

#define S_IFCHR		 0020000
#define FUSE_DEVICE	 (10 << 20 | 229) /* MISC_MAJOR, FUSE_MINOR */
#define FUSE_SUPER_MAGIC 0x65735546
#define NFS_SUPER_MAGIC	 0x6969
#define CIFS_SUPER_MAGIC 0xff534d42
#define SMB2_SUPER_MAGIC 0xfe534d42
#define CEPH_SUPER_MAGIC 0x00c36400
#define V9FS_MAGIC	 0x01021997

static __always_inline bool is_among(const volatile unsigned long long *calls, int number)
{
	u64 call = (u32)number;

	if (call >= WIRE_CALLS)
		return false;
	/* Masked: older verifiers lose the bounds of a value that was spilled to the stack. */
	barrier_var(call);
	return calls[(call / 64) & (WIRE_CALLS / 64 - 1)] >> (call % 64) & 1;
}

/* The file of the descriptor in the first argument of the task's system call. */
static __always_inline struct file *file_of_call(struct task_struct *task, struct pt_regs *regs)
{
	struct fdtable *table = READ(READ(task, files), fdt);
	u64 descriptor = (u32)first_argument_of(regs);
	struct file *file = NULL;

	if (!table || descriptor >= READ(table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), READ(table, fd) + descriptor);
	return file;
}

/* Whether the file's content is on a server: no block device is involved. */
static __always_inline bool is_on_server(struct inode *inode)
{
	u64 magic = READ(READ(inode, i_sb), s_magic);

	return magic == FUSE_SUPER_MAGIC || magic == NFS_SUPER_MAGIC || magic == CIFS_SUPER_MAGIC ||
	       magic == SMB2_SUPER_MAGIC || magic == CEPH_SUPER_MAGIC || magic == V9FS_MAGIC;
}

static __always_inline void note_file(struct wire_inode *found, struct task_struct *task,
				      struct pt_regs *regs, u32 level)
{
	struct file *file = file_of_call(task, regs);
	struct inode *inode;

	if (!file)
		return;
	inode = READ(file, f_inode);
	/* Of a block device itself, only the device is recorded. */
	if ((READ(inode, i_mode) & S_IFMT) == S_IFBLK) {
		found->device = READ(inode, i_rdev);
		return;
	}
	if (!is_on_block_device(inode) && !is_on_server(inode))
		return;
	if (!identify(inode, found))
		return;
	see_file(number_of(inode), number_of(READ(file, f_path.dentry)), level);
}

/* The file whose lock the call waits for: it may be on any file system. */
static __always_inline void note_lock_file(struct wire_inode *found, struct task_struct *task)
{
	struct file *file = file_of_call(task, user_registers(task));
	struct inode *inode;

	if (!file)
		return;
	inode = READ(file, f_inode);
	if (identify(inode, found))
		see_file(number_of(inode), number_of(READ(file, f_path.dentry)), ROOM_WAKE);
}

/*
 * Whether an interruptible sleep in the call can be for the server of a FUSE file system: a call on
 * one of its files, or on a name. User space decides by the stack.
 */
static __always_inline bool may_wait_for_server(struct task_struct *task, struct pt_regs *regs,
						int system_call)
{
	struct file *file;

	if (!settings.has_fuse || !regs)
		return false;
	if (is_among(settings.name_calls, system_call))
		return true;
	if (!is_among(settings.file_calls, system_call))
		return false;
	file = file_of_call(task, regs);
	return file && READ(READ(READ(file, f_inode), i_sb), s_magic) == FUSE_SUPER_MAGIC;
}

/* Whether the task is a FUSE server that waits for work: a task that wakes it waits for it. */
static __always_inline bool is_idle_server(struct task_struct *task, struct pt_regs *regs)
{
	struct file *file = settings.has_fuse ? file_of_call(task, regs) : NULL;
	struct inode *inode;

	if (!file)
		return false;
	inode = READ(file, f_inode);
	return (READ(inode, i_mode) & S_IFMT) == S_IFCHR && READ(inode, i_rdev) == FUSE_DEVICE;
}

#endif
