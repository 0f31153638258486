/* What the cases of async_calls share. */
#ifndef FOREBAY_TEST_ASYNC_CALLS_H
#define FOREBAY_TEST_ASYNC_CALLS_H

#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>

extern int exit_status;

#define CHECK(condition) checked((condition) != 0, #condition, __LINE__)
int checked(int good, const char *what, int line);

uint64_t next_random(uint64_t below);
uint64_t sum_of(const void *bytes, size_t size);
/* A line for the control file of slowfs. */
void slowfs(const char *line);
/* Waits for ever; how many are left. `failed`: whether one has; NULL: none may. */
size_t wait_all(hid_t events, int *failed);
hid_t make_file(const char *path, hid_t access);
/* `chunk` NULL: contiguous. */
hid_t make_dataset(hid_t file, const char *name, hid_t type, int rank, const hsize_t *extent, const hsize_t *chunk);

/* async_selections.c */
void selections(void);
void not_possible(void);
/* async_faults.c: on slowfs */
void hanging(void);
void canceled(void);
void erring(void);
void forked(void);

#endif
