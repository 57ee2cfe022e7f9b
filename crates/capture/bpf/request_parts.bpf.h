/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The parts of a request: how it is sent with the files and owners of all of its bios.
 *
 * What does not belong here: its life from bio to completion (see request_bios.bpf.h).
 */
#ifndef IOWHY_REQUEST_PARTS_H
#define IOWHY_REQUEST_PARTS_H

#include "emit.bpf.h"
#include "owners.bpf.h"
#include "in_flight.bpf.h"
#include "file_of_bio.bpf.h"

#define MAX_BIOS    256 /* bios of a request that are read */
#define MAX_VECTORS 256 /* vectors of a bio that are read */
#define MAX_FOLIOS  64	/* folios of a vector that are read */
/* Further bios of a request that are only freed: 1280 in total, the kernel's 1280 KiB by 1 KiB. */
#define MAX_FURTHER 1024
/*
 * Bios that one call of a global function handles: the verifier follows each turn of a loop, so two
 * nested loops of 16 are checked in an eighth of the time of one of 256.
 */
#define AT_ONCE 16

/*
 * The next bio of a request. This and the other functions here that loop, or that loops call, are
 * global functions: the verifier checks each once, not once per iteration of each loop on each path
 * to it. For the same reason the bodies of loops are short.
 */
__noinline u64 next_bio(u64 key)
{
	return number_of(READ((struct bio *)key, bi_next));
}

struct parts {
	struct wire_request request;
	struct wire_part more[WIRE_MAX_PARTS];
};

/* Adds a contiguous range of a file, merged with the last part if it continues it. */
static __always_inline void add_part(struct parts *parts, struct wire_part *part)
{
	struct wire_request *r = &parts->request;
	struct wire_part *last = &r->part;
	u32 count_now = r->parts;

	if (count_now)
		last = &parts->more[(count_now - 1) & (WIRE_MAX_PARTS - 1)];
	if (last->bytes == 0) {
		*last = *part;
		return;
	}
	if (last->inode.address == part->inode.address && last->found == part->found &&
	    (last->offset == OFFSET_UNKNOWN || last->offset + last->bytes == part->offset)) {
		last->bytes += part->bytes;
		return;
	}
	if (count_now >= WIRE_MAX_PARTS) {
		count(COUNT_PARTS_AGGREGATED);
		last->bytes += part->bytes;
		last->offset = OFFSET_UNKNOWN;
		return;
	}
	parts->more[count_now & (WIRE_MAX_PARTS - 1)] = *part;
	r->parts = count_now + 1;
}

/* Adds up to `bytes` of the folio of `page`, from `offset` in the page; returns how many. */
__noinline int add_folio(u64 page, u32 offset, u32 bytes)
{
	union room *room = room_of(ROOM_COMPLETE);
	struct wire_part part = { .offset = OFFSET_UNKNOWN };
	struct inode *inode = NULL;
	u64 rest = folio_rest((struct page *)page, offset);

	if (!room)
		return 0;
	part.bytes = bytes < rest ? bytes : rest;
	part.found = find_page((struct page *)page, &part, &inode);
	if (part.found == FOUND_PAGE)
		part.offset += offset;
	add_part((struct parts *)&room->parts, &part);
	return part.bytes;
}

/*
 * Adds up to `bytes` of one vector of a bio, from `skip` on; returns how many. Pages that are
 * adjacent in memory share a vector, but need not be adjacent in the file, so each folio is read.
 */
__noinline int add_vector(u64 address, u32 skip, u32 bytes)
{
	struct bio_vec vec;
	u32 i, at, done, length;

	if (bpf_probe_read_kernel(&vec, sizeof(vec), (void *)address) || vec.bv_len <= skip)
		return 0;
	at = vec.bv_offset + skip;
	length = vec.bv_len - skip;
	if (length > bytes)
		length = bytes;
	bytes = length;
	for (i = 0; i < MAX_FOLIOS && bytes; i++) {
		done = add_folio(nth_page(vec.bv_page, at), page_offset(at), bytes);
		if (!done || done > bytes)
			return length;
		bytes -= done;
		at += done;
	}
	if (bytes)
		count(COUNT_CHAIN_CUT);
	return length;
}

/* Adds a bio whose pages are not contiguous in its file. */
__noinline int add_pages(u64 bio_address)
{
	struct bio *bio = (struct bio *)bio_address;
	u64 vec = number_of(READ(bio, bi_io_vec)) +
		  (u64)READ(bio, bi_iter.bi_idx) * sizeof(struct bio_vec);
	u32 skip = READ(bio, bi_iter.bi_bvec_done);
	u32 bytes = READ(bio, bi_iter.bi_size);
	u32 i, done;

	for (i = 0; i < MAX_VECTORS && bytes; i++) {
		done = add_vector(vec, skip, bytes);
		if (!done || done > bytes)
			break;
		bytes -= done;
		vec += sizeof(struct bio_vec);
		skip = 0;
	}
	return 0;
}

/* Adds a bio that was merged into the request, and frees its slot; returns the next bio. */
__noinline u64 add_bio(u64 key)
{
	struct wire_request *one = find_request(key);
	union room *room = room_of(ROOM_COMPLETE);

	if (!room)
		return next_bio(key);
	if (!one) {
		/* It was not recorded, unlike the bio that it was merged into. */
		struct wire_part unknown = { .offset = OFFSET_UNKNOWN, .found = FOUND_NOT };

		unknown.bytes = READ((struct bio *)key, bi_iter.bi_size);
		add_part((struct parts *)&room->parts, &unknown);
		return next_bio(key);
	}
	if (one->flags & REQUEST_EXTENTS) {
		add_pages(key);
	} else {
		struct wire_part part = one->part;

		add_part((struct parts *)&room->parts, &part);
	}
	remove_request(key);
	return next_bio(key);
}

/* Frees the slot of a bio that completed as part of a request; returns the next. */
__noinline u64 forget_bio(u64 key)
{
	remove_request(key);
	return next_bio(key);
}

/* The same of some bios. */
__noinline u64 forget_bios(u64 key)
{
	u32 i;

	for (i = 0; key && i < AT_ONCE; i++)
		key = forget_bio(key);
	return key;
}

/* Adds some bios to the request; returns the next. */
__noinline u64 add_bios(u64 key)
{
	u32 i;

	for (i = 0; key && i < AT_ONCE; i++)
		key = add_bio(key);
	return key;
}

/* Sends the dirtiers of one part: 0 is the request's first. */
__noinline int emit_part_owners(u32 place)
{
	union room *room = room_of(ROOM_COMPLETE);
	struct parts *parts;

	if (!room)
		return 0;
	parts = (struct parts *)&room->parts;
	if (place == 0)
		emit_owners(&parts->request, &parts->request.part);
	else
		emit_owners(&parts->request, &parts->more[(place - 1) & (WIRE_MAX_PARTS - 1)]);
	return 0;
}

/* The same of some parts. */
__noinline int emit_owners_from(u32 first, u32 last)
{
	u32 i;

	for (i = 0; i < AT_ONCE && first + i <= last; i++)
		emit_part_owners(first + i);
	return 0;
}

/*
 * Sends the request whose first bio is `key` with every file and owner, and frees its bios' slots.
 */
__noinline int emit_with_parts(u64 key)
{
	struct wire_request *r = find_request(key);
	union room *room = room_of(ROOM_COMPLETE);
	struct parts *parts;
	u32 i, size;

	if (!r || !room)
		return 0;
	parts = (struct parts *)&room->parts;
	parts->request = *r;
	parts->request.parts = 0;
	parts->request.part.bytes = 0;
	for (i = 0; key && i < MAX_BIOS / AT_ONCE; i++)
		key = add_bios(key);
	/* Otherwise they would seem to be in flight forever. */
	for (i = 0; key && i < MAX_FURTHER / AT_ONCE; i++)
		key = forget_bios(key);
	for (i = 0; i <= WIRE_MAX_PARTS && i <= parts->request.parts; i += AT_ONCE)
		emit_owners_from(i, parts->request.parts);
	size = sizeof(struct wire_request) + parts->request.parts * sizeof(struct wire_part);
	if (size > sizeof(*parts))
		size = sizeof(*parts);
	emit(parts, size, COUNT_RING_FULL_REQUEST);
	return 0;
}

#endif
