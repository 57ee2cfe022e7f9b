// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * Where the functions are that end bios, and whether tracepoints have a guard of their own. User space
 * runs this once, before it loads the programs that compare with them: the kernel looks a name up in a
 * microsecond, and takes 50 ms to list them all.
 */
#include "kernel.bpf.h"
#include "wire.h"
#include <bpf/bpf_helpers.h>

SEC("syscall")
int find_symbols(struct wire_symbols *found)
{
	u64 address;

#define FIND_SYMBOL(id, symbol)                                                  \
	address = 0;                                                             \
	bpf_kallsyms_lookup_name(#symbol, sizeof(#symbol), 0, (void *)&address); \
	found->end_io[id] = address;
#define FIND_ALIAS(id, symbol)          \
	if (!found->end_io[id]) {       \
		FIND_SYMBOL(id, symbol) \
	}
#define FIND_IN_MODULE(id, module, symbol)                                            \
	address = 0;                                                                  \
	bpf_kallsyms_lookup_name(#module ":" #symbol, sizeof(#module ":" #symbol), 0, \
				 (void *)&address);                                   \
	if (address)                                                                  \
		found->end_io[id] = address;
	END_IO_LIST(FIND_SYMBOL)
	END_IO_ALIASES(FIND_ALIAS)
	END_IO_MODULES(FIND_IN_MODULE)
	/* 6.1 lets no helper write to what a program was given. */
	address = 0;
	bpf_kallsyms_lookup_name("tracepoint_srcu", sizeof("tracepoint_srcu"), 0, (void *)&address);
	found->tracepoint_srcu = address;
#undef FIND_IN_MODULE
#undef FIND_ALIAS
#undef FIND_SYMBOL
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
