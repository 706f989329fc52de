from bench.load import minicluster, plain_job
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.manifests import before_admission


def test_the_plain_job_is_the_adapters_but_belongs_to_nobody():
    manifest = minicluster("ns", "a", "queue", size=4)
    mc = MiniCluster.from_object({**manifest, "metadata": {**manifest["metadata"], "uid": "a"}})
    theirs = before_admission(mc)[-1]
    plain = plain_job(manifest)
    assert "ownerReferences" not in plain["metadata"]
    assert "app.kubernetes.io/managed-by" not in str(plain)
    del theirs["metadata"]["ownerReferences"]
    for labels in (theirs["metadata"]["labels"], theirs["spec"]["template"]["metadata"]["labels"]):
        del labels["app.kubernetes.io/managed-by"]
    assert plain == theirs
    assert plain["spec"]["suspend"] is True
    assert plain["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "queue"
