// Who a process is, by the variables of its launcher.
#include "tpubridge/distributed/place.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tpubridge/base/errors.h"

namespace tpubridge::distributed {
namespace {

using Variables = std::map<std::string, std::string>;

Place placed(const Variables& v) {
  return place_of([&](const std::string& name) -> std::optional<std::string> {
    const auto at = v.find(name);
    return at == v.end() ? std::nullopt : std::optional(at->second);
  });
}
std::string refused(const Variables& v) {
  try {
    const Place p = placed(v);
    ADD_FAILURE() << "rank " << p.rank << " of " << p.world;
  } catch (const TPUConfigurationError& e) {
    return e.what();
  }
  return {};
}

TEST(Place, Alone) {
  EXPECT_EQ(placed({}).world, 1);
  EXPECT_EQ(placed({}).launcher, "alone");
  EXPECT_EQ(placed({{"WORLD_SIZE", "8"}}).world, 1);                           // said of others
  EXPECT_EQ(placed({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).world, 1);  // a batch script
}

TEST(Place, Ours) {
  const Place p = placed(
      {{"TPUBRIDGE_RANK", "3"}, {"TPUBRIDGE_WORLD_SIZE", "8"}, {"TPUBRIDGE_COORDINATOR", "[::1]:29500"}});
  EXPECT_EQ(p.rank, 3);
  EXPECT_EQ(p.world, 8);
  EXPECT_EQ(p.host, "::1");
  EXPECT_EQ(p.port, 29500);
  EXPECT_TRUE(p.serves);
}

TEST(Place, Torchrun) {
  Variables v = {{"RANK", "5"},
                 {"WORLD_SIZE", "8"},
                 {"LOCAL_RANK", "1"},
                 {"LOCAL_WORLD_SIZE", "4"},
                 {"MASTER_ADDR", "node0"},
                 {"MASTER_PORT", "29400"},
                 {"TORCHELASTIC_RUN_ID", "abc"},
                 {"TORCHELASTIC_RESTART_COUNT", "2"},
                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
  const Place p = placed(v);
  EXPECT_EQ(p.rank, 5);
  EXPECT_EQ(p.local_rank, 1);
  EXPECT_EQ(p.local_world, 4);
  EXPECT_EQ(p.host, "node0");
  EXPECT_EQ(p.job, "abc/2");
  EXPECT_FALSE(p.serves);
  // Under Slurm, which starts one torchrun a node.
  v.insert({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_STEP_NODELIST", "n[1-2]"}});
  EXPECT_EQ(placed(v), p);
}

TEST(Place, MpiAndSlurm) {
  const Place mpi = placed({{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "prterun-host-1234"}});
  EXPECT_EQ(mpi.host, "127.0.0.1");
  EXPECT_GE(mpi.port, 20000);
  EXPECT_LT(mpi.port, 40000);
  const Place slurm = placed({{"SLURM_PROCID", "2"},
                              {"SLURM_NTASKS", "4"},
                              {"SLURM_LOCALID", "0"},
                              {"SLURM_STEP_NODELIST", "gpu[07-09,12],login"},
                              {"SLURM_JOB_ID", "4711"},
                              {"PMI_RANK", "2"},
                              {"PMI_SIZE", "4"}});
  EXPECT_EQ(slurm.rank, 2);
  EXPECT_EQ(slurm.host, "gpu07");
  EXPECT_NE(slurm.port, 0);
}

TEST(Place, SlurmWithTheVariablesOfMpich) {
  Variables v = {{"SLURM_PROCID", "3"},  {"SLURM_NTASKS", "4"},   {"SLURM_LOCALID", "1"},
                 {"PMI_RANK", "3"},      {"PMI_SIZE", "4"},       {"SLURM_STEP_NODELIST", "gpu[7-8]"},
                 {"SLURM_STEP_ID", "0"}, {"SLURM_JOB_ID", "4711"}};
  const Place first = placed(v);
  EXPECT_EQ(first.local_rank, 1);  // MPICH does not say
  EXPECT_EQ(first.job, "4711.0");
  v["SLURM_STEP_ID"] = "1";  // beside it
  const Place second = placed(v);
  EXPECT_NE(second.job, first.job);
  EXPECT_NE(second.port, first.port);
  v["MPI_LOCALRANKID"] = "0";
  EXPECT_EQ(placed(v).local_rank, 0);  // now it does
}

TEST(Place, TpuPod) {
  const Place p = placed({{"TPU_WORKER_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "w-0.sub,w-1.sub,w-2.sub"}});
  EXPECT_EQ(p.rank, 1);
  EXPECT_EQ(p.world, 3);
  EXPECT_EQ(p.host, "w-0.sub");
}

TEST(Place, HostsOfSlurm) {
  EXPECT_EQ(first_host("node7"), "node7");
  EXPECT_EQ(first_host("node7,node9"), "node7");
  EXPECT_EQ(first_host("a,b[1-3]"), "a");
  EXPECT_EQ(first_host("b[003-5]"), "b003");
  EXPECT_EQ(first_host("b[3,5]-ib"), "b3-ib");
  EXPECT_THROW((void)first_host("b[3"), TPUConfigurationError);
}

TEST(Place, WhatMakesNoSense) {
  const auto has = [](const std::string& all, const char* part) { return all.find(part) != all.npos; };
  EXPECT_TRUE(has(refused({{"RANK", "1"}}), "WORLD_SIZE is not"));
  EXPECT_TRUE(has(refused({{"RANK", "x"}, {"WORLD_SIZE", "2"}}), "docs/processes.md"));
  EXPECT_TRUE(has(refused({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "less than"));
  for (const char* bad : {"-1", "1x", "99999999999999999999", " 1", "0x1"})
    EXPECT_TRUE(has(refused({{"RANK", bad}, {"WORLD_SIZE", "2"}}), "RANK is no whole number")) << bad;
  EXPECT_TRUE(has(refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "does not say where rank 0"));
  for (const char* bad : {"host", ":1", "host:", "host:0", "host:70000", "host:1x"})
    (void)refused({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"TPUBRIDGE_COORDINATOR", bad}});
  const auto two = refused({{"RANK", "0"},
                            {"WORLD_SIZE", "2"},
                            {"MASTER_ADDR", "h"},
                            {"MASTER_PORT", "1"},
                            {"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_TRUE(has(two, "torchrun and OpenMPI disagree")) << two;
  EXPECT_TRUE(has(two, "OMPI_COMM_WORLD_RANK=1 of 2")) << two;
  EXPECT_TRUE(has(refused({{"TPU_WORKER_ID", "3"}, {"TPU_WORKER_HOSTNAMES", "a,b"}}), "not among"));
}

// Whatever stands in the variables: a place that makes sense, or an error of ours.
TEST(Place, HostileVariables) {
  const std::vector<std::string> names = {"RANK",
                                          "WORLD_SIZE",
                                          "MASTER_ADDR",
                                          "MASTER_PORT",
                                          "SLURM_PROCID",
                                          "SLURM_NTASKS",
                                          "SLURM_STEP_NODELIST",
                                          "SLURM_JOB_ID",
                                          "TPU_WORKER_ID",
                                          "TPU_WORKER_HOSTNAMES",
                                          "TPUBRIDGE_RANK",
                                          "TPUBRIDGE_WORLD_SIZE",
                                          "TPUBRIDGE_COORDINATOR",
                                          "TPUBRIDGE_JOB",
                                          "TORCHELASTIC_RUN_ID",
                                          "PMI_RANK",
                                          "PMI_SIZE",
                                          "LOCAL_RANK",
                                          "LOCAL_WORLD_SIZE"};
  const std::vector<std::string> values = {"0",
                                           "1",
                                           "2",
                                           "7",
                                           "-1",
                                           "",
                                           "a,b",
                                           "n[1-",
                                           "n[1-3],x",
                                           "[",
                                           "]",
                                           "host:1",
                                           ":",
                                           "1:2:3",
                                           "\x1b[31m",
                                           std::string(10000, '9'),
                                           "127.0.0.1:29500",
                                           "None"};
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    Variables v;
    for (const auto& n : names)
      if (random() % 3 == 0) v[n] = values[random() % values.size()];
    try {
      const Place p = placed(v);
      EXPECT_GE(p.rank, 0);
      EXPECT_LT(p.rank, p.world);
      EXPECT_TRUE(p.launcher == "alone" || (!p.host.empty() && p.port > 0 && p.port < 65536));
    } catch (const TPUConfigurationError&) {
    }
  }
}

}  // namespace
}  // namespace tpubridge::distributed
