/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Which devices are watched, and what their numbers are. */
#ifndef IOWHY_WATCHED_DEVICES_H
#define IOWHY_WATCHED_DEVICES_H

#include "compat.bpf.h"

#define S_IFMT	0170000
#define S_IFBLK 0060000

static __always_inline bool is_watched(u32 device)
{
	int i;

	if (!settings.device_count)
		return true;
	for (i = 0; i < WIRE_MAX_DEVICES; i++)
		if (i < settings.device_count && settings.devices[i] == device)
			return true;
	return false;
}

#define BTRFS_SUPER_MAGIC 0x9123683e

/* A btrfs file system can be on several devices, and has no s_bdev. */
static __always_inline bool is_on_block_device(struct inode *inode)
{
	struct super_block *sb = READ(inode, i_sb);

	return READ(sb, s_bdev) || READ(sb, s_magic) == BTRFS_SUPER_MAGIC;
}

/* A watch of some devices ignores the others. */
static __always_inline bool is_on_watched_device(struct inode *inode)
{
	struct block_device *device;

	if (!settings.device_count)
		return true;
	device = READ(READ(inode, i_sb), s_bdev);
	/* The device that btrfs will write to is known only when it does. */
	if (!device)
		return is_on_block_device(inode);
	return is_watched(device_of(READ(device, bd_disk)));
}

/* A driver's passthrough command, not a file system's I/O. */
static __always_inline bool is_passthrough(u32 operation)
{
	operation &= 0xff;
	return operation == 34 || operation == 35; /* REQ_OP_DRV_IN, REQ_OP_DRV_OUT */
}

#endif
