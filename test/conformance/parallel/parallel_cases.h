/* What the files of the program `parallel_cases` share: facts, rows, and the cases that parallel_cases.c lists. */
#pragma once

#include <hdf5.h>
#include <mpi.h>
#include <stdint.h>

enum { kExitFailure = 1, kExitWrongData = 3, kExitUsage = 2 };
enum { kRowWords = 256 * 1024 }; /* 2 MiB per rank and dataset */

extern int rank, ranks, exit_status;

/* Facts are kept until they are printed in one piece. */
__attribute__((format(printf, 1, 2))) void add_fact(const char *format, ...);
void print_facts(void);

/* Adds the fact whether a call succeeded, and returns its result. */
int64_t checked(const char *what, int64_t result);
#define CALL(call) checked(#call, (int64_t)(call))

hid_t access_through(MPI_Comm communicator);

/* A dataset with `rows` rows. What a row holds follows from its number and its version. */
hid_t create_rows(hid_t file, const char *name, int rows);
herr_t write_row(hid_t dataset, int row, uint64_t version, int collective);
void check_row(hid_t dataset, int row, uint64_t version, int collective);

/* parallel_groups.c: one file, and two groups of ranks that know nothing of each other. */
void two_groups(void);
void two_groups_at_once(void);
void two_groups_truncate(void);

/* parallel_turns.c: collective transfers, and no other synchronisation. */
void read_in_turn(void);
void written_in_turn(void);
void differing_in_turn(void);

/* parallel_failures.c: calls that fail, and programs that end badly. */
void refused_opens(void);
void forgotten(void);
void killed(void);
void killed_before_close(void);
void prepared(void);
void overwritten(void);
void overwritten_and_read(void);
void overwritten_or_given_up(void);
void aborted(void);
