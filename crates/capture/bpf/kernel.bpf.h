/* SPDX-License-Identifier: (MIT OR Apache-2.0) */
/*
 * The kernel's types, reduced to the fields that iowhy reads. Offsets are those of the running
 * kernel: every access is relocated by libbpf (CO-RE). A field that exists only on some kernels has
 * a comment, and is read only through compat.bpf.h.
 */
#ifndef IOWHY_KERNEL_H
#define IOWHY_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true  1
#define false 0
#define NULL  ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_AVAIL_DATA = 0,
	BPF_F_USER_STACK = 256,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next, *prev;
};

struct swait_queue {
	struct task_struct *task;
	struct list_head task_list;
};

struct completion {
	struct {
		struct list_head task_list;
	} wait;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

struct qstr {
	const unsigned char *name;
};

struct kernfs_node {
	struct kernfs_node *parent;
	struct kernfs_node *__parent; /* 6.15 and later */
	const char *name;
	u64 id;
};

struct cgroup_root {
	int hierarchy_id;
};

struct cgroup {
	struct kernfs_node *kn;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
};

struct blkcg {
	struct cgroup_subsys_state css;
};

struct blkcg_gq {
	struct blkcg *blkcg;
};

struct gendisk {
	int major;
	int first_minor;
	int flags;
	struct request_queue *queue;
	struct block_device *part0; /* 5.11 and later; before, no pointer */
};

struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
	struct request_queue *bd_queue;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
	struct list_head s_inodes;
};

struct mutex {
	struct {
		long counter;
	} owner;
};

struct rw_semaphore {
	struct {
		long counter;
	} owner;
};

struct semaphore {
	unsigned long last_holder; /* 6.16 and later */
};

struct file_lock_core { /* 6.9 and later */
	struct file_lock_core *flc_blocker;
	struct list_head flc_list;
	unsigned char flc_type;
	int flc_pid;
	struct file *flc_file;
};

struct file_lock {
	struct file_lock_core c;      /* 6.9 and later */
	struct file_lock *fl_blocker; /* until 6.8, down to fl_file */
	struct list_head fl_list;
	unsigned char fl_type;
	unsigned int fl_pid;
	struct file *fl_file;
	s64 fl_start; /* both */
	s64 fl_end;
};

struct file_lock_context {
	struct list_head flc_flock;
	struct list_head flc_posix;
};

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
	u32 i_rdev;
	unsigned int i_nlink;
	unsigned char i_blkbits;
	u32 i_generation;
	struct hlist_head i_dentry;
	struct list_head i_sb_list;
	struct file_lock_context *i_flctx;
};

struct bdev_inode {
	struct block_device bdev;
	struct inode vfs_inode;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned long marks[3];
};

/* The same where BTF has both dimensions (Debian's 7.2). */
struct xa_node___rows {
	unsigned long marks[3][1];
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
	union {
		struct hlist_node d_alias;
	} d_u;
};

/* 7.x: the union has no name. */
struct dentry___unnamed {
	struct hlist_node d_alias;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct path f_path;
	struct inode *f_inode;
	struct address_space *f_mapping;
	unsigned int f_flags;
	unsigned int f_mode;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path root;
	struct path pwd;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	void *ki_complete;
};

struct iomap_dio {
	struct kiocb *iocb;
	s64 size;
	bool wait_for_completion;
	struct {
		struct task_struct *waiter;
	} submit;
};

struct page {
	unsigned long compound_head;
	unsigned long compound_info; /* 7.2 and later */
	struct address_space *mapping;
	unsigned long index;
	unsigned long __folio_index; /* 7.2 and later */
};

struct folio {
	unsigned int _nr_pages;
	unsigned int _folio_nr_pages; /* until 6.9 */
};

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
	unsigned int bi_idx;
	unsigned int bi_bvec_done;
};

struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	struct gendisk *bi_disk; /* 5.10 */
	u32 bi_opf;
	u8 bi_status;
	struct bvec_iter bi_iter;
	void *bi_end_io;
	void *bi_private;
	struct blkcg_gq *bi_blkg;
	u64 issue_time_ns; /* 6.18 */
	unsigned short bi_vcnt;
	struct bio_vec *bi_io_vec;
};

struct buffer_head {
	void *b_end_io; /* until 7.x */
};

struct btrfs_inode {
	struct inode vfs_inode;
};

struct btrfs_bio {
	struct btrfs_inode *inode;
	u64 file_offset;
	void *end_io;
	void *private;
	struct bio bio;
};

struct btrfs_dio_private {
	struct inode *inode; /* until 6.1 */
};

struct dm_io {
	struct bio *orig_bio;
};

struct dm_target_io {
	struct dm_io *io;
	struct bio clone;
};

struct loop_cmd {
	struct kiocb iocb;
};

struct blk_mq_tags {
	unsigned int nr_tags;
	struct request **rqs;
};

struct blk_mq_tag_set {
	unsigned int nr_hw_queues;
	struct blk_mq_tags **tags;
};

struct kobject {
	struct kobject *parent;
};

struct device {
	struct kobject kobj;
	u32 devt;
};

struct request_queue {
	struct gendisk *disk; /* 5.15 and later */
	struct kobject kobj;  /* the queue's own until 6.2 */
	struct blk_mq_tag_set *tag_set;
};

enum mq_rq_state {
	MQ_RQ_IN_FLIGHT = 1,
};

struct request {
	struct request_queue *q;
	enum mq_rq_state state;
	u32 cmd_flags;
	u32 rq_flags;
	unsigned int __data_len;
	u64 __sector;
	struct bio *bio;
	u64 start_time_ns;
	u64 io_start_time_ns;
	struct gendisk *rq_disk; /* 5.10 */
};

struct cred {
	struct {
		u32 val;
	} uid;
};

struct mm_struct {
	struct file *exe_file;
};

struct pt_regs {
	unsigned long orig_ax; /* x86, down to bp */
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
	unsigned long ip;
	unsigned long bp;
	s32 syscallno; /* arm64, down to pc */
	u64 regs[31];
	u64 pc;
	unsigned long sp; /* both */
	u64 orig_x0;	  /* arm64 */
};

struct thread_info {
	u32 status; /* x86 */
	unsigned long flags;
};

struct sched_info {
	unsigned long long run_delay; /* only with schedstats or delay accounting */
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct io_context {
	unsigned short ioprio;
};

struct task_struct {
	struct thread_info thread_info;
	void *stack;
	unsigned int __state; /* 5.14 and later */
	long state;
	unsigned int in_iowait : 1;
	int on_cpu;
	unsigned int flags;
	struct mm_struct *mm;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	u64 start_boottime;
	struct cred *cred;
	char comm[16];
	struct css_set *cgroups;
	struct files_struct *files;
	struct fs_struct *fs;
	struct io_context *io_context;
	unsigned int policy;
	struct sched_info sched_info;
	struct sched_entity se;
	unsigned long blocker;	     /* 6.16 and later */
	struct mutex *blocker_mutex; /* 6.15 */
};

struct io_uring_task {
	struct task_struct *task;
};

struct io_uring_cqe {
	s32 res;
};

struct io_ring_ctx {
	struct task_struct *sqo_task; /* until 5.11 */
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	struct io_ring_ctx *ctx;
	struct io_uring_task *tctx; /* 6.13 and later */
	struct task_struct *task;   /* before */
};

struct seq_file {
	void *private;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__bpf_map_elem {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	void *key;
	void *value;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

/* Only values that some kernels lack. */
enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
	BPF_FUNC_task_pt_regs = 175,
};

enum cgroup_subsys_id {
	io_cgrp_id = 4,
};

/* An enum since 6.12; before, macros, which are not in the kernel's BTF. */
enum rqf_flags {
	__RQF_FLUSH_SEQ = 1,
};

enum pageflags {
	PG_locked = 0,
	PG_writeback = 1,
	PG_head = 6,
};

enum req_flag_bits {
	__REQ_META = 12,
	__REQ_FUA = 17,
	__REQ_PREFLUSH = 18,
};

#endif
