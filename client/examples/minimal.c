#include <cairn.h>
#include <stdio.h>

int main(void) {
  static double field[1000];
  uint64_t step = 0, dataset, label;
  cairn_session* cairn;
  if (cairn_open(NULL, &cairn) != CAIRN_OK) { /* the run's directory is $CAIRN_PREFIX */
    fprintf(stderr, "%s\n", cairn_error(NULL));
    return 1;
  }
  cairn_protect_value(cairn, 1, "step", &step, 1, CAIRN_UINT64);
  cairn_protect(cairn, 2, field, 1000, CAIRN_DOUBLE);

  int code;
  do { /* CAIRN_RETRY: a copy was damaged on some rank, an older checkpoint is next */
    code = cairn_latest(cairn, &dataset, &label);
    if (code == CAIRN_OK) code = cairn_restore(cairn, dataset);
  } while (code == CAIRN_RETRY);
  if (code != CAIRN_OK && code != CAIRN_NOT_FOUND) {
    fprintf(stderr, "%s\n", cairn_error(cairn));
    return 1;
  }
  printf("from step %llu\n", (unsigned long long)step);

  while (step < 100) {
    for (int i = 0; i < 1000; ++i) field[i] += 0.5 * i;
    ++step;
    if (step % 10 == 0 && cairn_checkpoint(cairn, step, &dataset) != CAIRN_OK) {
      fprintf(stderr, "%s\n", cairn_error(cairn)); /* costs this checkpoint only: the run goes on */
    }
  }
  return cairn_close(cairn) == CAIRN_OK ? 0 : 1;
}
