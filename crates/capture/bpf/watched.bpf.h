/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Which devices are watched, and what their numbers are. */
#ifndef IOWHY_WATCHED_H
#define IOWHY_WATCHED_H

#include "compat.bpf.h"

static __always_inline u32 device_of(struct gendisk *disk)
{
	return (u32)READ(disk, major) << 20 | (u32)READ(disk, first_minor);
}

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

/* A driver's command, not a file system's. */
static __always_inline bool is_passthrough(u32 operation)
{
	operation &= 0xff;
	return operation == 34 || operation == 35; /* REQ_OP_DRV_IN, REQ_OP_DRV_OUT */
}

#endif
