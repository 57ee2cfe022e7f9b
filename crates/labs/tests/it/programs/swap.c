// Swaps what stands in a directory for links, as fast as it can, as the owner of the directory may: every file for a
// link to FILE, every directory for a link to DIRECTORY, and back. Before something stands under a NAME, it plants a
// link there. It writes how often it did so to .swaps, and ends when it is killed.
// usage: swap FOLDER FILE DIRECTORY NAME...
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARE_FILE ".spare-file"
#define SPARE_DIRECTORY ".spare-directory"

static const char *file, *directory;
static unsigned long swaps, plants;

static int exchange(const char *one, const char *other) {
  return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

static void spare(const char *name, const char *target) {
  static unsigned long gone;
  char junk[64];
  if (unlink(name) != 0) {
    // What root made, and took another name for meanwhile.
    snprintf(junk, sizeof junk, ".junk-%lu", gone++);
    rename(name, junk);
  }
  symlink(target, name);
}

static void swap(const char *name, int is_directory) {
  const char *link = is_directory ? SPARE_DIRECTORY : SPARE_FILE;
  if (exchange(name, link) != 0)
    return;
  swaps++;
  if (exchange(name, link) != 0)
    spare(link, is_directory ? directory : file);
}

static void swap_all(void) {
  DIR *folder = opendir(".");
  struct dirent *entry;
  struct stat about;
  while (folder && (entry = readdir(folder))) {
    const char *name = entry->d_name;
    if (!strcmp(name, ".") || !strcmp(name, "..") || !strncmp(name, ".spare-", 7) || !strncmp(name, ".junk-", 6) ||
        !strcmp(name, ".swaps") || lstat(name, &about) != 0 || S_ISLNK(about.st_mode))
      continue;
    swap(name, S_ISDIR(about.st_mode));
  }
  if (folder)
    closedir(folder);
}

int main(int argc, char **argv) {
  if (argc < 4 || chdir(argv[1]) != 0)
    return 1;
  file = argv[2];
  directory = argv[3];
  spare(SPARE_FILE, file);
  spare(SPARE_DIRECTORY, directory);
  int counter = open(".swaps", O_WRONLY | O_CREAT, 0644);
  for (unsigned long round = 0;; round++) {
    for (int name = 4; name < argc; name++)
      plants += symlink(round & 1 ? directory : file, argv[name]) == 0;
    swap_all();
    for (int name = 4; name < argc; name++) {
      struct stat about;
      if (lstat(argv[name], &about) == 0 && S_ISLNK(about.st_mode))
        unlink(argv[name]);
      // What stands there for longer than a moment is swapped many times.
      for (int turn = 0; turn < 8 && lstat(argv[name], &about) == 0 && !S_ISLNK(about.st_mode); turn++)
        swap(argv[name], S_ISDIR(about.st_mode));
    }
    char text[64];
    int length = snprintf(text, sizeof text, "%020lu %020lu\n", swaps, plants);
    pwrite(counter, text, length, 0);
  }
}
