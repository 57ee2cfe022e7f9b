/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The part of the wire format with which stacks of programs without frame pointers are copied, to
 * be unwound in user space. Included by wire.h, whose rules hold here too.
 */
#ifndef IOWHY_WIRE_COPIES_H
#define IOWHY_WIRE_COPIES_H

#define WIRE_COPY_CHUNK	      4096 /* copied at once, aligned: it never crosses a page */
#define WIRE_COPY_CHUNKS      8
#define WIRE_DEEP_CHUNKS      16     /* of a process whose stacks are deeper */
#define WIRE_COPIED_PROCESSES 4096   /* processes whose stacks are copied */
#define WIRE_MOST_LEFT_OUT    64     /* after so many an incomplete stack is better than none */
#define WIRE_EACH_STACK	      100000 /* stacks a second on a CPU: the user wants each */

/*
 * A process whose stacks are copied. Of its requests that were chosen for a stack, those for which
 * no token was left are represented by the next one.
 */
struct wire_copied_process {
	unsigned int left_out;	   /* such choices in a row */
	unsigned int stack_weight; /* requests that they stand for */
	unsigned int is_deep;
	unsigned int padding;
};

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
	unsigned int took_ns;
	unsigned char stack[WIRE_COPY_CHUNK * WIRE_DEEP_CHUNKS];
};

#endif
