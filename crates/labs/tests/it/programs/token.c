/* Runs a program as a user who has no capability of the machine, in a user namespace of its own
 * whose /sys/fs/bpf has what root delegated to it, so that the program can make a BPF token.
 *
 * usage: token USER delegate_cmds=... delegate_maps=... ... -- PROGRAM ARGUMENTS
 * Ends with 3 where the kernel has no tokens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* linux/mount.h and linux/bpf.h of newer kernels. */
enum { SET_STRING = 1, CREATE = 6, EMPTY_PATH = 4, TOKEN_CREATE = 36 };

enum { FAILED = 2, NO_TOKENS = 3 };

static long must(const char *what, long result)
{
	if (result < 0) {
		int why = errno;
		perror(what);
		exit(why == EINVAL || why == ENOSYS ? NO_TOKENS : FAILED);
	}
	return result;
}

static void say(int to)
{
	must("tell the other side", write(to, "", 1));
}

static void hear(int from)
{
	char said;
	if (read(from, &said, 1) != 1)
		exit(FAILED);
}

static void write_text(const char *path, const char *text)
{
	int file = must(path, open(path, O_WRONLY));
	must(path, write(file, text, strlen(text)));
	close(file);
}

static void send_file(int to, int file)
{
	char space[CMSG_SPACE(sizeof file)] = { 0 }, byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = space,
				  .msg_controllen = sizeof space };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof file);
	memcpy(CMSG_DATA(header), &file, sizeof file);
	must("send a file", sendmsg(to, &message, 0));
}

static int receive_file(int from)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = space,
				  .msg_controllen = sizeof space };
	int file;
	if (recvmsg(from, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		exit(FAILED);
	memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof file);
	return file;
}

/* In the namespace: the mount is its own, what it may delegate is root's to say. */
static void run(int root, int user, char **program)
{
	int context, mounted;
	struct {
		unsigned flags, folder;
	} token = { 0, 0 };
	must("leave all groups", setgroups(0, NULL));
	must("become another group", setresgid(user, user, user));
	must("become another user", setresuid(user, user, user));
	/* Root writes its maps. */
	must("be described", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
	must("make namespaces", unshare(CLONE_NEWUSER | CLONE_NEWNS));
	say(root);
	hear(root);
	context = must("begin a bpffs", syscall(SYS_fsopen, "bpf", 1));
	send_file(root, context);
	hear(root);
	mounted = must("make a mount", syscall(SYS_fsmount, context, 1, 0));
	must("keep mounts to itself", mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	must("mount", syscall(SYS_move_mount, mounted, "", AT_FDCWD, "/sys/fs/bpf", EMPTY_PATH));
	token.folder = must("open it", open("/sys/fs/bpf", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	must("make a token", syscall(SYS_bpf, TOKEN_CREATE, &token, sizeof token));
	execv(program[0], program);
	perror(program[0]);
	exit(FAILED);
}

int main(int count, char **arguments)
{
	int pair[2], end = 2, user, context, status;
	char path[64], map[64];
	pid_t child;
	while (end < count && strcmp(arguments[end], "--") != 0)
		end++;
	if (end + 1 >= count)
		return FAILED;
	user = atoi(arguments[1]);
	must("make a pair of sockets", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	child = must("start the other side", fork());
	if (child == 0) {
		close(pair[0]);
		run(pair[1], user, arguments + end + 1);
	}
	close(pair[1]);
	hear(pair[0]);
	snprintf(map, sizeof map, "0 %d 1\n", user);
	snprintf(path, sizeof path, "/proc/%d/setgroups", child);
	write_text(path, "deny");
	snprintf(path, sizeof path, "/proc/%d/uid_map", child);
	write_text(path, map);
	snprintf(path, sizeof path, "/proc/%d/gid_map", child);
	write_text(path, map);
	say(pair[0]);
	context = receive_file(pair[0]);
	for (int at = 2; at < end; at++) {
		char *value = strchr(arguments[at], '=');
		if (!value)
			return FAILED;
		*value++ = 0;
		must(arguments[at],
		     syscall(SYS_fsconfig, context, SET_STRING, arguments[at], value, 0));
	}
	must("make the bpffs", syscall(SYS_fsconfig, context, CREATE, NULL, NULL, 0));
	say(pair[0]);
	must("wait", waitpid(child, &status, 0));
	return WIFEXITED(status) ? WEXITSTATUS(status) : FAILED;
}
