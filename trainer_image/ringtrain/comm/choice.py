"""From what a user asks for to what is connected: pure."""

import torch

from ringtrain.comm.fabric import Plan
from ringtrain.comm.topology import Topology
from ringtrain.contract.communication import CommunicationConfig


def fabric_plan(config: CommunicationConfig, topology: Topology, device: torch.device) -> Plan:
    return Plan(
        topology=topology,
        algorithm=config.chosen_algorithm,
        intra="nccl" if device.type == "cuda" else "gloo",
        inter=config.inter,
    )
