#!/bin/bash
#SBATCH --partition=gpu
