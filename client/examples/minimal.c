/* The least that an application needs: what it protects, where it goes on, and when it saves. */
#include <cairn.h>
#include <stdio.h>

static int complain(const cairn_session* cairn) {
  fprintf(stderr, "%s\n", cairn_error(cairn));
  return 1;
}

static void compute(double* field) {
  for (int i = 0; i < 1000; ++i) field[i] += 0.5 * i;
}

int main(void) {
  static double field[1000];
  uint64_t step = 0;
  cairn_session* cairn;

  if (cairn_open(NULL, &cairn) != CAIRN_OK) return complain(NULL); /* the run's directory is $CAIRN_PREFIX */
  cairn_protect_value(cairn, 1, "step", &step, 1, CAIRN_UINT64);
  cairn_protect(cairn, 2, field, 1000, CAIRN_DOUBLE);
  const int code = cairn_resume(cairn, NULL); /* the newest whole checkpoint; CAIRN_NOT_FOUND: there is none */
  if (code != CAIRN_OK && code != CAIRN_NOT_FOUND) return complain(cairn);
  printf("from step %llu\n", (unsigned long long)step);
  while (step < 100) {
    compute(field);
    ++step;
    if (step % 10 == 0 && cairn_checkpoint(cairn, step, NULL) != CAIRN_OK) complain(cairn); /* the run goes on */
  }
  return cairn_close(cairn) == CAIRN_OK ? 0 : 1;
}
