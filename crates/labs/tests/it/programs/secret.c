/*
 * Writes blocks of a device directly, with a secret in every frame of its stack. It is compiled without frame
 * pointers, so its stacks are copied. The secret is in no file: it is made when the program runs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define REPEATED 16

/* "STACKSECRET7F3A9", every letter one further. */
static const char shifted[] = "TUBDLTFDSFU8G4B:";

static int disk;

static __attribute__((noinline)) int write_one(const void *block, long number)
{
	ssize_t done = pwrite(disk, block, BLOCK, number % 64 * BLOCK);

	__asm__ volatile("" ::: "memory");
	return done == BLOCK ? 0 : 1;
}

static __attribute__((noinline)) int write_with_secret(int depth, const void *block, long number)
{
	volatile char secret[REPEATED * (sizeof(shifted) - 1)];
	int failed;

	for (size_t at = 0; at < sizeof(secret); at++)
		secret[at] = shifted[at % (sizeof(shifted) - 1)] - 1;
	failed = depth ? write_with_secret(depth - 1, block, number) : write_one(block, number);
	__asm__ volatile("" ::: "memory");
	return failed + (secret[depth] ? 0 : 1);
}

int main(int count, char **arguments)
{
	long number = 0;
	time_t until;
	void *block;

	disk = count > 2 ? open(arguments[1], O_WRONLY | O_DIRECT) : -1;
	if (disk < 0 || posix_memalign(&block, BLOCK, BLOCK))
		return 2;
	memset(block, 7, BLOCK);
	until = time(NULL) + atoi(arguments[2]);
	while (time(NULL) < until)
		if (write_with_secret(6, block, number++))
			return 1;
	return 0;
}
