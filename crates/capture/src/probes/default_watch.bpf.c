// SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0
/*
 * The groups of a watch without options as one object: libbpf reads the kernel's BTF once, and looks
 * up each type once, instead of six times. A program that a kernel rejects is left out, and the rest
 * is loaded again.
 *
 * Programs and maps do not belong here (see the groups).
 */
#include "aggregate/aggregate.bpf.c"
#include "block/block.bpf.c"
#include "writeback/writeback.bpf.c"
#include "wait/wait.bpf.c"
#include "file/file.bpf.c"
#include "snapshot/snapshot.bpf.c"
