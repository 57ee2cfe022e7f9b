/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The iocbs of io_submit(2): an array in the program's memory. They are counted at submission, with
 * the bytes that they request, because their completions do not identify the file.
 */
#ifndef IOWHY_AIO_SUBMISSIONS_H
#define IOWHY_AIO_SUBMISSIONS_H

#include "file_activity.bpf.h"

#define MOST_SUBMITTED 64 /* per call; further ones are counted as not read */
#define MOST_VECTORS   8

/* uapi/linux/aio_abi.h */
enum iocb_command {
	IOCB_CMD_PREAD = 0,
	IOCB_CMD_PWRITE = 1,
	IOCB_CMD_FSYNC = 2,
	IOCB_CMD_FDSYNC = 3,
	IOCB_CMD_PREADV = 7,
	IOCB_CMD_PWRITEV = 8,
};

/* The part of struct iocb after its first 16 bytes. */
#define IOCB_COMMAND_AT 16

struct aio_control {
	u16 command;
	s16 priority;
	u32 descriptor;
	u64 buffer;
	u64 bytes;
};

struct vector {
	u64 base;
	u64 bytes;
};

static __always_inline u32 kind_of_command(u32 command)
{
	switch (command) {
	case IOCB_CMD_PREAD:
	case IOCB_CMD_PREADV:
		return USE_READ;
	case IOCB_CMD_PWRITE:
	case IOCB_CMD_PWRITEV:
		return USE_WRITE;
	case IOCB_CMD_FSYNC:
	case IOCB_CMD_FDSYNC:
		return USE_FSYNC;
	}
	return USE_NONE;
}

/* The bytes of the first vectors. */
static __always_inline u64 bytes_of_vectors(u64 first, u64 count)
{
	struct vector vector;
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < MOST_VECTORS && i < count; i++) {
		if (bpf_probe_read_user(&vector, sizeof(vector),
					(void *)(first + i * sizeof(vector))))
			break;
		bytes += vector.bytes;
	}
	return bytes;
}

/* A global function, so that the verifier checks it once and not for each iocb of a call. */
__noinline int charge_submitted(u64 place)
{
	struct wire_slots *own = own_slots();
	struct aio_control control = {};
	struct outcome outcome = {};
	u64 address = 0;
	u32 kind;

	if (!own || bpf_probe_read_user(&address, sizeof(address), (void *)place) ||
	    bpf_probe_read_user(&control, sizeof(control), (void *)(address + IOCB_COMMAND_AT)))
		return 0;
	kind = kind_of_command(control.command);
	if (!kind)
		return 0;
	outcome.result = control.bytes;
	if (control.command == IOCB_CMD_PREADV || control.command == IOCB_CMD_PWRITEV)
		outcome.result = bytes_of_vectors(control.buffer, control.bytes);
	on_descriptor(own, current_task(), kind, control.descriptor, &outcome);
	return 0;
}

static __always_inline void on_submit(u64 first, s64 submitted)
{
	u32 i;

	for (i = 0; i < MOST_SUBMITTED && i < submitted; i++)
		charge_submitted(first + i * sizeof(u64));
	if (submitted > MOST_SUBMITTED)
		count(COUNT_SUBMITTED_CUT);
}

#endif
