/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The part of the wire format with which stacks of programs without frame pointers are copied, to
 * be unwound in user space. Included by wire.h, whose rules hold here too.
 */
#ifndef IOWHY_WIRE_COPIES_H
#define IOWHY_WIRE_COPIES_H

#define WIRE_COPY_CHUNK	      4096 /* copied at once, aligned: it never crosses a page */
#define WIRE_COPY_CHUNKS      8
#define WIRE_COPIED_PROCESSES 4096 /* processes whose stacks are copied */

/* How many stacks may still be copied until user space grants more. */
struct wire_copy_tokens {
	int left;
	int reserved; /* of these, for threads whose last wait was long */
};

/* The registers and the stack of a thread in the kernel. */
struct wire_copied_stack {
	unsigned int kind;
	unsigned int sample; /* of a request: its wire_stack's; 0: of a wait */
	unsigned int tgid;
	unsigned int tid;
	unsigned long long start_ns; /* of the wait */
	unsigned long long instruction;
	unsigned long long stack_pointer;
	unsigned long long frame_pointer;
	unsigned long long link; /* the link register; 0 where the CPU has none */
	unsigned long long base; /* the address of the first copied byte */
	unsigned int bytes;
	unsigned int padding;
	unsigned char stack[WIRE_COPY_CHUNK * WIRE_COPY_CHUNKS];
};

#endif
