/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/* Which request of an upper device (device mapper, loop) a bio serves. */
#ifndef IOWHY_UPPER_REQUESTS_H
#define IOWHY_UPPER_REQUESTS_H

#include "request_bios.bpf.h"
#include "submitters.bpf.h"

/*
 * A bio that the device mapper cloned serves a bio of the mapped device. If dm is a module without
 * BTF, the parent is not known.
 */
static __always_inline void note_mapped(struct wire_request *r, struct bio *bio)
{
	struct wire_request *found;
	struct dm_target_io *target;

	if (!settings.end_io[END_IO_DM] || !bpf_core_type_exists(struct dm_target_io) ||
	    number_of(bio->bi_end_io) != settings.end_io[END_IO_DM])
		return;
	target = (void *)(number_of(bio) - bpf_core_field_offset(struct dm_target_io, clone));
	found = find_request(number_of(BPF_CORE_READ(target, io, orig_bio)));
	if (found)
		r->parent = found->id;
}

/* A bio of a loop device's backing file serves a request of the loop device. */
static __always_inline void note_parent(struct wire_request *r, struct kiocb *iocb)
{
	struct request *upper;
	struct wire_request *found;

	if (!iocb || !bpf_core_type_exists(struct loop_cmd) ||
	    end_io_of(number_of(READ(iocb, ki_complete))) != END_IO_LOOP)
		return;
	upper = (struct request *)(number_of(iocb) - bpf_core_field_offset(struct loop_cmd, iocb) -
				   bpf_core_type_size(struct request));
	found = find_request(number_of(READ(upper, bio)));
	if (found)
		r->parent = found->id;
}

#endif
