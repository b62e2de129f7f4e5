/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small neural network to read handwritten digits, on an Ascend device or on Cannon. Start reading here;
 * model.c has the network, device.h the thin layer over CANN, data.c the file.
 *
 *   digits [digits.csv.gz]     exit status 0 if more than 96 % of the held-out digits are recognised */
#include "model.h"

#include <aclnnop/aclnn_zero.h>
#include <stdio.h>

/* With these values, a NumPy replica of the program reaches 97.5 to 98.3 % for each of 17 seeds. */
enum { N_EPOCHS = 40, BATCH = 64, SEED = 1 };
static const float LEARNING_RATE = 3e-3f, WANTED_PERCENT = 96;

/* Queues an epoch. The last samples, too few for a batch, are left out. Returns the number of steps. */
static int64_t train_epoch(device *dev, model *net, pass *p, const samples *s) {
  int64_t n = s->rows / BATCH;
  RUN(dev, aclnnInplaceZero, net->loss_sum);
  for (int64_t i = 0; i < n; i++) {
    upload(dev, p->index, s->order + i * BATCH, BATCH * sizeof *s->order);
    model_train(net, dev, p, LEARNING_RATE);
  }
  return n;
}

/* Returns the percentage of test samples that are recognised at the end. */
static float train(device *dev, samples *train_set, const samples *test_set) {
  model net;
  pass batch, test;
  model_init(&net, dev, SEED);
  pass_init(&batch, dev, train_set, BATCH);
  pass_init(&test, dev, test_set, test_set->rows);
  upload(dev, test.index, test_set->order, test_set->rows * sizeof *test_set->order);

  float percent = 0, *result; /* copied from the device: sum of losses, number of correct samples */
  CHECK(aclrtMallocHost((void **)&result, 2 * sizeof *result));
  unsigned shuffle_seed = SEED;
  for (int epoch = 1; epoch <= N_EPOCHS; epoch++) {
    shuffle(train_set, &shuffle_seed);
    int64_t n_steps = train_epoch(dev, &net, &batch, train_set);
    model_evaluate(&net, dev, &test);
    download(dev, &result[0], net.loss_sum, sizeof *result);
    download(dev, &result[1], test.n_right, sizeof *result);
    CHECK(aclrtSynchronizeStream(dev->stream)); /* the only wait per epoch; everything before was only queued */

    percent = 100 * result[1] / test_set->rows;
    printf("epoch %2d/%d   loss %.4f   held-out accuracy %.2f %%\n", epoch, N_EPOCHS, result[0] / n_steps, percent);
    fflush(stdout);
  }
  CHECK(aclrtFreeHost(result));
  model_free(&net);
  return percent;
}

int main(int argc, char **argv) {
  device dev;
  samples train_set, test_set;
  device_open(&dev, 0);
  load_digits(argc > 1 ? argv[1] : DIGITS_DATA, &train_set, &test_set);
  printf("%s: a %d-%d-%d perceptron, %d digits to learn from, %d held out\n", aclrtGetSocName(), N_PIXELS, N_HIDDEN,
         N_CLASSES, (int)train_set.rows, (int)test_set.rows);

  float percent = train(&dev, &train_set, &test_set);

  free_samples(&train_set);
  free_samples(&test_set);
  device_close(&dev);
  printf("read right: %.2f %% of the held-out digits (wanted: more than %.0f %%)\n", percent, WANTED_PERCENT);
  return percent > WANTED_PERCENT ? 0 : 1;
}
