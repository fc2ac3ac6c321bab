/* One rank of OpenMPI, told what to do by a rank of bench.
 *
 * usage: mpirun -n SIZE openmpi_peer PREFIX
 *
 * Reads commands from the FIFO PREFIX.RANK.in and answers on PREFIX.RANK.out, a line each; ends
 * when the commands end. It waits for commands in read(): a rank that waits in MPI takes a core.
 * Its groups are duplicates of the communicator that MPI_Init connected. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef OPEN_MPI
#error "another MPI: bench would call it openmpi"
#endif

static int rank, size;

static void fail(FILE* answers, const char* what) {
  fprintf(answers, "error %s\n", what);
  fflush(answers);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double cycle(void) {
  MPI_Comm copy;
  double begin;
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_free(&copy);
  return MPI_Wtime() - begin;
}

static double all_reduce(FILE* answers, MPI_Comm group, long count, int iterations) {
  float* values = malloc((size_t)count * sizeof(float));
  double begin, seconds;
  long i;
  int k;
  if (values == NULL) fail(answers, "out of memory");
  for (i = 0; i < count; ++i) values[i] = (float)(rank + 1);
  MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, group);
  for (i = 0; i < count; ++i) {
    if (values[i] != (float)(size * (size + 1) / 2)) fail(answers, "a sum is wrong");
  }
  memset(values, 0, (size_t)count * sizeof(float));
  MPI_Allreduce(MPI_IN_PLACE, values, 1, MPI_FLOAT, MPI_SUM, group); /* begin together */
  begin = MPI_Wtime();
  for (k = 0; k < iterations; ++k) {
    MPI_Allreduce(MPI_IN_PLACE, values, (int)count, MPI_FLOAT, MPI_SUM, group);
  }
  seconds = (MPI_Wtime() - begin) / iterations;
  free(values);
  return seconds;
}

int main(int argc, char** argv) {
  char path[4096], line[256];
  FILE *commands, *answers;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(path, sizeof(path), "%s.%d.in", argv[1], rank);
  commands = fopen(path, "r");
  snprintf(path, sizeof(path), "%s.%d.out", argv[1], rank);
  answers = fopen(path, "w");
  if (commands == NULL || answers == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  fprintf(answers, "ok 0\n");
  fflush(answers);
  while (fgets(line, sizeof(line), commands) != NULL) {
    long count;
    int iterations;
    double seconds = 0;
    if (strcmp(line, "cycle\n") == 0) {
      seconds = cycle();
    } else if (strcmp(line, "open\n") == 0) {
      MPI_Comm_dup(MPI_COMM_WORLD, &group);
    } else if (strcmp(line, "close\n") == 0) {
      MPI_Comm_free(&group);
    } else if (sscanf(line, "all_reduce %ld %d", &count, &iterations) == 2) {
      seconds = all_reduce(answers, group, count, iterations);
    } else {
      fail(answers, "an unknown command");
    }
    fprintf(answers, "ok %.0f\n", seconds * 1e9);
    fflush(answers);
  }
  MPI_Finalize();
  return 0;
}
