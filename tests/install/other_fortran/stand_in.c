/* SPDX-License-Identifier: Apache-2.0 */
/* What mpi_f08.f90 calls: MPI's C interface with communicators as integers. Errors end the program, as MPI's default
 * is. */
#include <mpi.h>

#define ALIGNED __attribute__((aligned(8))) /* as flang has them */
MPI_Fint stand_in_world ALIGNED, stand_in_self ALIGNED, stand_in_null ALIGNED;

void stand_in_init(void);
int stand_in_initialized(void);
void stand_in_finalize(void);
int stand_in_rank(MPI_Fint comm);
int stand_in_size(MPI_Fint comm);
MPI_Fint stand_in_split(MPI_Fint comm, int color, int key);
MPI_Fint stand_in_free(MPI_Fint comm);
void stand_in_barrier(MPI_Fint comm);
void stand_in_bcast(void* buffer, int count, int type, int root, MPI_Fint comm);
void stand_in_allreduce(const void* sent, void* received, int in_place, int count, int type, int op, MPI_Fint comm);
double stand_in_wtime(void);

static MPI_Datatype type_of(int number) {
  MPI_Datatype types[] = {MPI_INT, MPI_INT64_T, MPI_DOUBLE, MPI_CHAR};
  return types[number];
}

static MPI_Op op_of(int number) {
  MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN};
  return ops[number];
}

void stand_in_init(void) {
  MPI_Init(NULL, NULL);
  stand_in_world = MPI_Comm_c2f(MPI_COMM_WORLD); /* not legal any earlier */
  stand_in_self = MPI_Comm_c2f(MPI_COMM_SELF);
  stand_in_null = MPI_Comm_c2f(MPI_COMM_NULL);
}

int stand_in_initialized(void) {
  int flag = 0;
  MPI_Initialized(&flag);
  return flag;
}

void stand_in_finalize(void) { MPI_Finalize(); }

int stand_in_rank(MPI_Fint comm) {
  int rank = 0;
  MPI_Comm_rank(MPI_Comm_f2c(comm), &rank);
  return rank;
}

int stand_in_size(MPI_Fint comm) {
  int size = 0;
  MPI_Comm_size(MPI_Comm_f2c(comm), &size);
  return size;
}

MPI_Fint stand_in_split(MPI_Fint comm, int color, int key) {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_Comm_f2c(comm), color < 0 ? MPI_UNDEFINED : color, key, &part);
  return MPI_Comm_c2f(part);
}

MPI_Fint stand_in_free(MPI_Fint comm) {
  MPI_Comm freed = MPI_Comm_f2c(comm);
  MPI_Comm_free(&freed);
  return MPI_Comm_c2f(freed);
}

void stand_in_barrier(MPI_Fint comm) { MPI_Barrier(MPI_Comm_f2c(comm)); }

void stand_in_bcast(void* buffer, int count, int type, int root, MPI_Fint comm) {
  MPI_Bcast(buffer, count, type_of(type), root, MPI_Comm_f2c(comm));
}

void stand_in_allreduce(const void* sent, void* received, int in_place, int count, int type, int op, MPI_Fint comm) {
  MPI_Allreduce(in_place ? MPI_IN_PLACE : sent, received, count, type_of(type), op_of(op), MPI_Comm_f2c(comm));
}

double stand_in_wtime(void) { return MPI_Wtime(); }
