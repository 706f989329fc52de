"""The images that a dev cluster runs, each made or found on this machine and put into the Docker engine.

Every function returns a reference that the engine has; calling it again costs about a second.
"""

from kueue_flux.devcluster.images.adapter import adapter_image
from kueue_flux.devcluster.images.app import app_image
from kueue_flux.devcluster.images.flux import FluxImage, flux_image
from kueue_flux.devcluster.images.standin import standin_image
from kueue_flux.devcluster.images.view import view_image

__all__ = ["FluxImage", "adapter_image", "app_image", "flux_image", "standin_image", "view_image"]
