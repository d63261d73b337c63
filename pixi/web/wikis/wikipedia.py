"""Which Wikipedia is written in a language."""

_DEFAULT = "en"
_OTHERWISE = {
    "cmn": "zh",
    "fil": "tl",
    "gsw": "als",
    "in": "id",
    "iw": "he",
    "lzh": "zh-classical",
    "nan": "zh-min-nan",
    "nb": "no",
    "rup": "roa-rup",
    "sgs": "bat-smg",
    "vro": "fiu-vro",
    "yue": "zh-yue",
}
"""Languages whose Wikipedia has another name than they have."""

_NAMES = (
    "ab ace ady af als alt am ami an ang ann anp ar arc ary arz as ast atj av avk awa ay az azb ba ban "
    "bar bat-smg bbc bcl be be-tarask bg bh bi bjn blk bm bn bo bpy br bs bug bxr ca cbk-zam cdo ce ceb "
    "ch chr chy ckb co cr crh cs csb cu cv cy da dag de dga din diq dsb dty dv dz ee el eml en eo es et "
    "eu ext fa fat ff fi fiu-vro fj fo fon fr frp frr fur fy ga gag gan gcr gd gl glk gn gom gor got gpe "
    "gu guc gur guw gv ha hak haw he hi hif hr hsb ht hu hy hyw ia id ie ig ik ilo inh io is it iu ja jam "
    "jbo jv ka kaa kab kbd kbp kcg kg ki kk kl km kn ko koi krc ks ksh ku kv kw ky la lad lb lbe lez lfn "
    "lg li lij lld lmo ln lo lt ltg lv mad mai map-bms mdf mg mhr mi min mk ml mn mni mnw mr mrj ms mt "
    "mwl my myv mzn nah nap nds nds-nl ne new nia nl nn no nov nqo nrm nso nv ny oc olo om or os pa pag "
    "pam pap pcd pcm pdc pfl pi pih pl pms pnb pnt ps pt pwn qu rm rmy rn ro roa-rup roa-tara ru rue rw "
    "sa sah sat sc scn sco sd se sg sh shi shn si simple sk skr sl sm smn sn so sq sr srn ss st stq su sv "
    "sw szl szy ta tay tcy te tet tg th ti tk tl tly tn to tpi tr trv ts tt tum tw ty tyv udm ug uk ur uz "
    "ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh zh-classical zh-min-nan zh-yue zu"
)
_WIKIPEDIAS = frozenset(_NAMES.split())
_HAN = ("hans", "hant", "cn", "hk", "mo", "my", "sg", "tw")
_VARIANTS = frozenset({*(f"zh-{script}" for script in _HAN), "sr-ec", "sr-el"})
_SCRIPTS = {"sr-cyrl": "sr-ec", "sr-latn": "sr-el"}


def wikipedia_in(language: str) -> tuple[str, str]:
    """Where the Wikipedia of a language is, by its BCP 47 tag; and which variant of it is meant, or "".

    Where there is none in that language, it is the English one.
    """
    tag = language.strip().lower().replace("_", "-")
    parts = tag.split("-")
    two = "-".join(parts[:2])
    for name in (_OTHERWISE.get(part, part) for part in (tag, two, parts[0])):
        if name in _WIKIPEDIAS:
            variant = _SCRIPTS.get(two, two)
            return f"https://{name}.wikipedia.org/wiki/", variant if variant in _VARIANTS else ""
    return f"https://{_DEFAULT}.wikipedia.org/wiki/", ""
