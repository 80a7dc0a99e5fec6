/* Heat conduction on a square plate, in C under MPI: explicit steps on a size x size grid, decomposed in two
 * dimensions, ghost cells exchanged before every step. The result does not depend on the number of ranks, nor on being
 * killed, nor on going on with another number of ranks after that.
 *
 * What Cairn needs is in `start`, `save` and `resume`: the step is a value that is the same on all ranks, the field is
 * this rank's box of a global array, of which only the owned cells are stored. A restart on more or fewer ranks needs
 * nothing else: each gets its box, whoever stored it. `is_due` and `is_to_stop` let the run be
 * steered from outside: all ranks ask, and all get the same answer. */
#include <fcntl.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cairn.h>
#include "options.h"

enum { STEP_ID = 1, FIELD_ID = 2 };

typedef struct plate {
  MPI_Comm grid;
  int rank;
  int up, down, left, right;   /* neighbours; MPI_PROC_NULL at the edge of the plate */
  uint64_t size;               /* of the global grid in each dimension */
  uint64_t start[2], count[2]; /* this rank's box */
  uint64_t mem[2];             /* the box with one ghost cell on each side */
  double *now, *next;
  MPI_Datatype column;
  uint64_t step; /* the last one computed */
} plate;

static double* cell(const plate* p, double* field, uint64_t row, uint64_t column) {
  return field + row * p->mem[1] + column;
}

static void give_up(const char* what, const cairn_session* session) {
  fprintf(stderr, "heat2d_mpi: %s: %s\n", what, cairn_error(session));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void decompose(plate* p, uint64_t size) {
  int nranks, dims[2] = {0, 0}, periods[2] = {0, 0}, place[2];
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  MPI_Dims_create(nranks, 2, dims);
  MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &p->grid);
  MPI_Comm_rank(p->grid, &p->rank);
  MPI_Cart_coords(p->grid, p->rank, 2, place);
  MPI_Cart_shift(p->grid, 0, 1, &p->up, &p->down);
  MPI_Cart_shift(p->grid, 1, 1, &p->left, &p->right);
  p->size = size;
  for (int d = 0; d < 2; ++d) {
    p->start[d] = size * (uint64_t)place[d] / (uint64_t)dims[d];
    p->count[d] = size * (uint64_t)(place[d] + 1) / (uint64_t)dims[d] - p->start[d];
    p->mem[d] = p->count[d] + 2;
  }
  p->now = calloc(p->mem[0] * p->mem[1], sizeof(double));
  p->next = calloc(p->mem[0] * p->mem[1], sizeof(double));
  if (p->now == NULL || p->next == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Type_vector((int)p->count[0], 1, (int)p->mem[1], MPI_DOUBLE, &p->column);
  MPI_Type_commit(&p->column);
}

/* The beginning: a cold plate with a cold edge and some hot spots. */
static void heat_up(plate* p) {
  p->step = 0;
  for (uint64_t row = 1; row <= p->count[0]; ++row) {
    for (uint64_t column = 1; column <= p->count[1]; ++column) {
      const double y = (double)(p->start[0] + row) / (double)p->size,
                   x = (double)(p->start[1] + column) / (double)p->size;
      *cell(p, p->now, row, column) = 100.0 * x * (1.0 - x) * y * (1.0 - y) + (fabs(x - y) < 0.1 ? 50.0 : 0.0);
    }
  }
}

static void exchange(plate* p) {
  const int width = (int)p->count[1];
  double* f = p->now;
  MPI_Sendrecv(cell(p, f, 1, 1), width, MPI_DOUBLE, p->up, 0, cell(p, f, p->count[0] + 1, 1), width, MPI_DOUBLE,
               p->down, 0, p->grid, MPI_STATUS_IGNORE);
  MPI_Sendrecv(cell(p, f, p->count[0], 1), width, MPI_DOUBLE, p->down, 1, cell(p, f, 0, 1), width, MPI_DOUBLE, p->up, 1,
               p->grid, MPI_STATUS_IGNORE);
  MPI_Sendrecv(cell(p, f, 1, 1), 1, p->column, p->left, 2, cell(p, f, 1, p->count[1] + 1), 1, p->column, p->right, 2,
               p->grid, MPI_STATUS_IGNORE);
  MPI_Sendrecv(cell(p, f, 1, p->count[1]), 1, p->column, p->right, 3, cell(p, f, 1, 0), 1, p->column, p->left, 3,
               p->grid, MPI_STATUS_IGNORE);
}

/* `dies`: only half of the step. */
static void advance(plate* p, int dies) {
  exchange(p);
  for (uint64_t row = 1; row <= p->count[0]; ++row) {
    if (dies && row == p->count[0] / 2 + 1) raise(SIGKILL);
    const double* above = cell(p, p->now, row - 1, 0);
    const double* here = cell(p, p->now, row, 0);
    const double* below = cell(p, p->now, row + 1, 0);
    double* next = cell(p, p->next, row, 0);
    for (uint64_t c = 1; c <= p->count[1]; ++c) {
      next[c] = here[c] + 0.2 * (above[c] + below[c] + here[c - 1] + here[c + 1] - 4.0 * here[c]);
    }
  }
  double* old = p->now;
  p->now = p->next;
  p->next = old;
  ++p->step;
}

/* The two fields change places after each step, so the current one is named anew before it is saved or restored. */
static void protect(plate* p, cairn_session* session) {
  const uint64_t shape[2] = {p->size, p->size}, inside[2] = {1, 1};
  if (cairn_protect_value(session, STEP_ID, "step", &p->step, 1, CAIRN_UINT64) != CAIRN_OK ||
      cairn_protect_array(session, FIELD_ID, "temperature", p->now, CAIRN_DOUBLE, 2, shape, p->start, p->count, p->mem,
                          inside) != CAIRN_OK) {
    give_up("protect", session);
  }
}

/* A checkpoint that fails costs only itself: the run goes on and tries again at the next one. */
static void save(plate* p, cairn_session* session, int32_t level) {
  uint64_t dataset = 0;
  protect(p, session);
  int code = cairn_checkpoint(session, p->step, &dataset);
  if (code == CAIRN_OK && level != CAIRN_LEVEL_NONE) code = cairn_wait(session, dataset, level, 60000);
  if (code != CAIRN_OK) {
    fprintf(stderr, "heat2d_mpi: rank %d: checkpoint of step %llu: %s\n", p->rank, (unsigned long long)p->step,
            cairn_error(session));
  } else if (p->rank == 0) {
    printf("checkpoint of step %llu is dataset %llu\n", (unsigned long long)p->step, (unsigned long long)dataset);
    fflush(stdout);
  }
}

/* Which copy served each rank. */
static void print_tiers(const plate* p, int32_t tier) {
  int nranks;
  MPI_Comm_size(p->grid, &nranks);
  int32_t* tiers = calloc((size_t)nranks, sizeof *tiers);
  if (tiers == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Gather(&tier, 1, MPI_INT32_T, tiers, 1, MPI_INT32_T, 0, p->grid);
  if (p->rank == 0) {
    printf("tiers by rank:");
    for (int rank = 0; rank < nranks; ++rank) printf(" %s", example_tier(tiers[rank]));
    printf("\n");
    fflush(stdout);
  }
  free(tiers);
}

static void resume(plate* p, cairn_session* session) {
  uint64_t dataset = 0, step = 0;
  int32_t tier = CAIRN_TIER_NONE;
  protect(p, session);
  const int code = cairn_resume(session, &step);
  if (code == CAIRN_DIRTY) { /* no copy is whole, and part of one is in the memory of some rank */
    fprintf(stderr, "heat2d_mpi: rank %d: %s\n", p->rank, cairn_error(session));
    heat_up(p);
    protect(p, session);
  }
  if (code == CAIRN_NOT_FOUND || code == CAIRN_DIRTY) {
    if (p->rank == 0) printf("starting fresh\n");
    fflush(stdout);
    return;
  }
  if (code != CAIRN_OK || cairn_restored_dataset(session, &dataset) != CAIRN_OK ||
      cairn_restored_tier(session, &tier) != CAIRN_OK) {
    give_up("resume", session);
  }
  if (p->rank == 0) {
    printf("resumed from step %llu (dataset %llu, tier %s)\n", (unsigned long long)step, (unsigned long long)dataset,
           example_tier(tier));
    fflush(stdout);
  }
  print_tiers(p, tier);
}

/* By --every, or as the daemon is configured (CAIRN_CHECKPOINT_INTERVAL and others). */
static int is_due(const plate* p, cairn_session* session, uint64_t every) {
  int32_t flag = 0;
  if (cairn_need_checkpoint(session, &flag) != CAIRN_OK) give_up("need checkpoint", session);
  return flag || p->step % every == 0;
}

static int is_to_stop(const plate* p, cairn_session* session) {
  int32_t flag = 0;
  if (cairn_should_exit(session, &flag) != CAIRN_OK) give_up("should exit", session);
  if (flag && p->rank == 0) printf("stopping after step %llu: %s\n", (unsigned long long)p->step, cairn_error(session));
  return flag;
}

/* Every rank writes its box into the one file, row by row. */
static void write_result(const plate* p, const char* path) {
  if (p->rank == 0) close(open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644));
  MPI_Barrier(p->grid);
  const int fd = open(path, O_WRONLY);
  const ssize_t width = (ssize_t)(p->count[1] * sizeof(double));
  int good = fd >= 0;
  for (uint64_t row = 0; good && row < p->count[0]; ++row) {
    const off_t place = (off_t)(((p->start[0] + row) * p->size + p->start[1]) * sizeof(double));
    good = pwrite(fd, cell(p, p->now, row + 1, 1), (size_t)width, place) == width;
  }
  if (!good || close(fd) != 0) {
    fprintf(stderr, "heat2d_mpi: cannot write %s\n", path);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}

static cairn_session* start(void) {
  cairn_session* session = NULL;
  const cairn_options options = CAIRN_OPTIONS_INIT; /* rank, ranks and launch are known from MPI's variables */
  if (cairn_open(&options, &session) != CAIRN_OK) give_up("open", NULL);
  return session;
}

int main(int argc, char** argv) {
  example_options options = {.steps = 400, .every = 50, .size = 512};
  example_parse(argc, argv, &options);
  MPI_Init(&argc, &argv);
  plate p = {0};
  decompose(&p, options.size);
  heat_up(&p);
  cairn_session* session = NULL;
  if (options.every != 0) {
    session = start();
    resume(&p, session);
  }
  int stop = 0;
  while (p.step < options.steps && !stop) {
    advance(&p, p.rank == 0 && p.step + 1 == options.die_at);
    if (session == NULL) continue;
    const int due = is_due(&p, session, options.every);
    if (due) save(&p, session, options.level);
    stop = is_to_stop(&p, session);
    if (stop && !due) save(&p, session, options.level); /* told between the two questions */
  }
  if (options.out != NULL && !stop) write_result(&p, options.out);
  if (cairn_close(session) != CAIRN_OK) give_up("close", NULL);
  if (p.rank == 0) printf("done after step %llu\n", (unsigned long long)p.step);
  MPI_Type_free(&p.column);
  free(p.now);
  free(p.next);
  MPI_Finalize();
  return 0;
}
