// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Two threads that meet at a barrier in each round: one reads a block of FILE, past the page cache
 * where the file system can, the other works for so many milliseconds. Prints the rounds per second.
 *
 * barrier FILE WORK_MS SECONDS
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096

static pthread_barrier_t barrier;
static double work_s, end_s;
static int file;
static off_t blocks;
static volatile int done;

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void *work(void *unused)
{
	for (;;) {
		double until = now_s() + work_s;

		while (now_s() < until)
			;
		pthread_barrier_wait(&barrier);
		/* The reader decides between the two, so that both leave in the same round. */
		pthread_barrier_wait(&barrier);
		if (done)
			return unused;
	}
}

int main(int count, char **arguments)
{
	double begun = now_s();
	long rounds = 0;
	pthread_t worker;
	void *block;

	if (count != 4 || posix_memalign(&block, BLOCK, BLOCK))
		return 2;
	file = open(arguments[1], O_RDONLY | O_DIRECT);
	if (file < 0 && errno == EINVAL)
		file = open(arguments[1], O_RDONLY);
	if (file < 0)
		return perror(arguments[1]), 1;
	blocks = lseek(file, 0, SEEK_END) / BLOCK;
	work_s = atof(arguments[2]) / 1e3;
	end_s = begun + atof(arguments[3]);
	pthread_barrier_init(&barrier, NULL, 2);
	if (blocks < 1 || pthread_create(&worker, NULL, work, NULL))
		return 1;
	for (unsigned long seed = 1; !done; rounds++) {
		/* Knuth's generator: no two blocks in a row are neighbours. */
		seed = seed * 6364136223846793005ul + 1442695040888963407ul;
		if (pread(file, block, BLOCK, (off_t)((seed >> 33) % blocks) * BLOCK) != BLOCK)
			return perror("pread"), 1;
		pthread_barrier_wait(&barrier);
		done = now_s() >= end_s;
		pthread_barrier_wait(&barrier);
	}
	pthread_join(worker, NULL);
	printf("%.3f\n", rounds / (now_s() - begun));
	return 0;
}
