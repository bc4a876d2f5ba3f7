"""Ordinary Korean words and the patterns that make sentences of them. Data only.

A word is what stands between two spaces (어절): a noun carries its particle, chosen by its last syllable.
"""

from __future__ import annotations

__all__ = ["ASKS", "OPENING", "SENTENCES", "TOKENS_PER_WORD", "with_particle"]

TOKENS_PER_WORD = 2.4
"""Of today's large vocabularies, before the server's own count is known."""


def with_particle(noun: str, after_consonant: str, after_vowel: str) -> str:
    """The noun with the particle that its last syllable asks for.

    >>> with_particle("지도", "을", "를"), with_particle("우산", "을", "를")
    ('지도를', '우산을')
    """
    ends_in_consonant = (ord(noun[-1]) - ord("가")) % 28 != 0
    return noun + (after_consonant if ends_in_consonant else after_vowel)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ADJECTIVES = _words("""
    가벼운 가까운 강한 거친 검은 게으른 고마운 고요한 귀여운 귀한 그리운 기쁜 긴 깊은 깨끗한 낡은 낮은 낯선 넓은
    높은 놀라운 느린 늦은 다정한 단단한 달콤한 더운 둥근 뜨거운 많은 맑은 맛있는 매운 먼 멋진 모난 무거운 무서운
    미끄러운 밝은 복잡한 부드러운 부지런한 부족한 비싼 빠른 빨간 뾰족한 사소한 새로운 서툰 성실한 소중한 솔직한
    수상한 슬픈 시원한 신기한 심심한 싱싱한 싼 쓸쓸한 아늑한 아름다운 알찬 얇은 어두운 어려운 엄격한 예쁜 오래된
    외로운 용감한 우아한 유명한 유쾌한 이상한 익숙한 작은 정확한 조용한 좁은 중요한 즐거운 지루한 진한 짙은 짧은
    차가운 착한 촉촉한 충분한 친절한 커다란 튼튼한 특별한 파란 편리한 평범한 평화로운 푸른 풍부한 필요한 하얀
    한가한 향기로운 화려한 환한 훌륭한 흐린 흔한 희미한 힘찬
""")
_THINGS = _words("""
    가방 가위 가구 간판 감자 거울 건물 계단 계약서 고구마 골목 공책 공항 과자 교실 구두 구름 국수 그네 그림 금고
    기계 기차 기타 김치 꽃병 나무 나침반 낙엽 난로 냄비 냉장고 노트북 다리 단추 달력 담요 대문 도로 도서관 도시락
    도자기 돌담 동전 등대 라디오 램프 레몬 로봇 마당 마을 망원경 망치 메모 모래 모자 목걸이 무지개 문서 물병
    바구니 바다 바위 박물관 밥상 방석 배추 버스 벽시계 벽지 병원 보고서 보석 봉투 부엌 분수 블록 비누 비옷 비행기
    빗자루 빵집 사과 사진 상자 상점 서랍 서류 선물 선반 세탁기 소금 소설 소파 손수건 수건 수박 수첩 숟가락 스웨터
    시계 시장 식탁 신문 신호등 쓰레기통 악보 안경 양말 양파 연못 연필 열쇠 엽서 영수증 영화 오븐 온실 옷장 요리책
    우물 우산 우체통 운동장 운동화 유리창 의자 이불 일기장 자동차 자전거 자물쇠 작업실 잡지 장갑 장난감 전등
    전화기 정원 조각상 종이 주머니 주전자 지갑 지도 지붕 집게 찻잔 창고 창문 책상 책장 천막 철길 초대장 촛불 칠판
    침대 카메라 커튼 컴퓨터 케이크 탁자 택배 텃밭 통장 트럭 티셔츠 파도 편지 포스터 피아노 필통 항구 해변 현관
    호수 화분 화장품 휴대전화
""")
_PEOPLE = _words("""
    가수 간호사 감독 경찰관 고모 과학자 관광객 교수 군인 기사 기술자 기자 농부 누나 대학생 도예가 동생 목수 무용수
    미용사 박사 배우 번역가 변호사 비서 사서 사장 사진사 삼촌 상인 선생님 선장 선수 소방관 손님 수리공 시민 시인
    신부 아버지 아이 안내원 약사 어머니 여행자 연구원 엔지니어 요리사 우체부 운전사 유학생 음악가 의사 이모 이웃
    작가 장인 점원 정원사 제빵사 조카 주민 주인 지휘자 직원 청년 친구 탐험가 통역사 판사 편집자 학생 할머니
    할아버지 형님 화가 회계사
""")
_NAMES = _words("""
    가영 경수 규민 기태 나래 다은 도현 동수 동욱 미경 미나 민서 민수 민재 민지 병호 보라 상민 상우 서연 서준 선희
    성민 성훈 소라 소연 수빈 수아 수정 수진 승현 시우 아름 연우 영미 영수 영호 예린 예준 용준 우진 유나 유진 윤서
    윤호 은비 은주 은지 인수 재민 재석 재현 정민 정우 정희 종혁 주원 준서 준호 지민 지선 지수 지우 지호 진아 진우
    창민 채원 태민 태준 하나 하늘 하윤 하준 현수 현우 혜진 호준
""")
_VERBS = _words("""
    가져왔다 감췄다 건넸다 걸어두었다 고쳤다 골랐다 관찰했다 구경했다 그렸다 기다렸다 기록했다 기억했다 꺼냈다
    꾸몄다 나눴다 내려놓았다 넘겼다 넣었다 놓쳤다 닦았다 닫았다 담았다 당겼다 덮었다 돌려줬다 두고왔다 들었다
    따라갔다 떨어뜨렸다 만들었다 만졌다 망가뜨렸다 맡겼다 모았다 묶었다 미뤘다 믿었다 밀었다 바꿨다 바라봤다
    발견했다 배달했다 버렸다 보관했다 보냈다 보여줬다 부러워했다 부탁했다 비웠다 빌렸다 사용했다 살펴봤다 샀다
    선물했다 설명했다 세었다 소개했다 숨겼다 쌓았다 씻었다 아꼈다 알아봤다 연구했다 열었다 옮겼다 완성했다
    이해했다 잃어버렸다 자랑했다 잠갔다 저장했다 접었다 정리했다 조사했다 좋아했다 주문했다 주웠다 준비했다 지켰다
    지켜봤다 집어들었다 찍었다 찾았다 청소했다 측정했다 칠했다 칭찬했다 펼쳤다 포장했다 확인했다 훑어봤다
""")
_ADVERBS = _words("""
    가끔 가만히 갑자기 겨우 결국 곧 그냥 급히 깊이 꼼꼼히 나란히 날마다 다시 다행히 당장 대충 더욱 드디어 따로
    때때로 또다시 마침내 매일 먼저 몰래 몹시 무사히 미리 방금 벌써 부지런히 분명히 빨리 살며시 서둘러 서서히
    솔직히 슬쩍 실제로 아까 아마 어제 언제나 얼른 여전히 열심히 오늘 오랫동안 완전히 우연히 이미 일부러 일찍 자주
    잠시 재빨리 정말 조금씩 조심스럽게 조용히 직접 차근차근 천천히 틈틈이 하루종일 한참 함께 항상
""")
_NUMBERS = _words("""
    두 세 네 다섯 여섯 일곱 여덟 아홉 열 열한 열두 열세 열네 열다섯 열여섯 열일곱 열여덟 열아홉 스무 서른 마흔 쉰
    예순 일흔 여든 아흔
""")
_TIMES = _words("""
    아침에 저녁에 밤늦게 새벽에 점심시간에 주말에 월요일에 겨울에 여름마다 봄날에 가을에 방학에 출근길에 퇴근길에
    휴일에 이튿날 며칠뒤 그해에
""")

_subjects = tuple(with_particle(person, "이", "가") for person in _PEOPLE)
_topics = tuple(with_particle(person, "은", "는") for person in _PEOPLE)
_named = tuple(with_particle(name, "이가", "가") for name in _NAMES)
_objects = tuple(with_particle(thing, "을", "를") for thing in _THINGS)
_paired = tuple(with_particle(thing, "과", "와") for thing in _THINGS)
_beside = tuple(f"{thing} 옆에서" for thing in _THINGS[::3])
_ends = tuple(f"{verb}." for verb in _VERBS)
_because = tuple(f"{verb.removesuffix('다')}기" for verb in _VERBS)

OPENING = (_ADJECTIVES, _paired, _ADJECTIVES, _objects, _named, _TIMES, _NUMBERS, ("번",), _ADVERBS, _ends)
"""How every conversation begins. The first words vary most: they are what a prefix cache sees first."""

SENTENCES = (
    (_ADJECTIVES, _subjects, _ADVERBS, _ADJECTIVES, _objects, _ends),
    (_TIMES, _named, _beside, _ADJECTIVES, _objects, _ADVERBS, _ends),
    (_subjects, _objects, _because, ("때문에",), _ADJECTIVES, _topics, _ADVERBS, _objects, _ends),
    (("그래서",), _ADJECTIVES, _topics, _beside, _paired, _objects, _NUMBERS, ("번이나",), _ends),
)

ASKS = (
    "가능한 한 길고 자세하게, 모든 단계를 빠짐없이 설명해 주시고 중간에 멈추지 마세요.",
    "모든 단계를 길고 자세하게 설명해 주세요.",
    "길고 자세하게 답해 주세요.",
    "자세히 설명해 주세요.",
)
"""Requests for a long answer, the longest first."""
